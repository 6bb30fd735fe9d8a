#include "protocol/ticket/gpu_uuid.h"

#include <charconv>
#include <cstdint>
#include <system_error>

namespace tessera {

std::optional<std::array<std::byte, 16>> ParseGpuUuid(std::string_view text) {
  constexpr std::string_view kForm = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  constexpr std::string_view kBegin = "GPU-";
  if (text.size() != kForm.size() || !text.starts_with(kBegin)) return std::nullopt;
  std::array<std::byte, 16> uuid{};
  size_t at = kBegin.size();
  for (std::byte& byte : uuid) {
    if (kForm[at] == '-' && text[at++] != '-') return std::nullopt;
    uint8_t value = 0;
    const char* const end = text.data() + at + 2;
    const auto [stopped, error] = std::from_chars(text.data() + at, end, value, 16);
    if (error != std::errc() || stopped != end) return std::nullopt;
    byte = std::byte{value};
    at += 2;
  }
  return uuid;
}

}  // namespace tessera
