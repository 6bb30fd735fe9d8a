#include "protocol/wire/holder.h"

#include <charconv>
#include <system_error>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr std::string_view kUser = "uid:";
constexpr std::string_view kName = "name:";

}  // namespace

std::string UserHolder(uint32_t uid) { return std::string(kUser) + std::to_string(uid); }

std::string NameHolder(std::string_view name) {
  const std::string holder = std::string(kName) + std::string(name);
  return std::string(IsHolder(holder) ? holder : kAnonymousHolder);
}

std::optional<uint32_t> UserOf(std::string_view holder) {
  if (!holder.starts_with(kUser)) return std::nullopt;
  const std::string_view digits = holder.substr(kUser.size());
  uint32_t uid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), uid);
  if (error != std::errc() || end != digits.data() + digits.size() || UserHolder(uid) != holder) return std::nullopt;
  return uid;
}

bool IsNameHolder(std::string_view holder) { return holder.starts_with(kName) && IsHolder(holder); }

bool IsHolder(std::string_view text) {
  if (text.size() > kHolderBytesMax) return false;
  if (text == kAnonymousHolder || UserOf(text)) return true;
  return text.size() > kName.size() && text.starts_with(kName) && Printable(text, kHolderBytesMax) == text;
}

std::string GetHolder(Decoder& in) {
  std::string holder(in.String(kHolderBytesMax));
  if (holder.empty() || IsHolder(holder)) return holder;
  in.Fail();
  return "";
}

}  // namespace tessera
