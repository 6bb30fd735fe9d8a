#include "server/broker/vgpu_annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr std::string_view kRequest = "fastgshare/gpu_quota_request";
constexpr std::string_view kLimit = "fastgshare/gpu_quota_limit";
constexpr std::string_view kMemory = "fastgshare/gpu_mem";
constexpr std::string_view kSmPartition = kSmPartitionAnnotation;

// Of a key or a value, in a sentence.
constexpr size_t kShownBytesMax = 100;

Status Invalid(const std::string& why) { return Status(StatusCode::kInvalidArgument, why); }

std::string Shown(std::string_view text) { return Printable(text, kShownBytesMax) + (text.size() > kShownBytesMax ? "..." : ""); }

bool HasOnly(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

// The whole text.
template <typename Number>
bool Parse(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// Lays the annotation's value over a field, which says the same if it was given.
template <typename Number>
Status Say(std::string_view key, std::string_view text, Number value, std::string_view field, std::optional<Number>* to) {
  if (*to && **to != value) {
    return Invalid(fmt::format("annotation {}: '{}' contradicts {} {}: say one of them", key, Shown(text), field, **to));
  }
  *to = value;
  return Status::Ok();
}

Status ReadShare(std::string_view key, std::string_view text, std::string_view field, std::optional<double>* share) {
  double value = 0;
  if (!HasOnly(text, "0123456789.") || !Parse(text, &value) || value > 1) {
    return Invalid(fmt::format("annotation {}: '{}' is no share from 0 to 1, like 0.5", key, Shown(text)));
  }
  return Say(key, text, value, field, share);
}

Status ReadOne(std::string_view key, std::string_view text, AnnotatedFields* fields) {
  if (key == kRequest) return ReadShare(key, text, "request", &fields->request);
  if (key == kLimit) return ReadShare(key, text, "limit", &fields->limit);
  if (key == kMemory) {
    uint64_t bytes = 0;
    if (!HasOnly(text, "0123456789") || !Parse(text, &bytes) || bytes == 0) {
      return Invalid(fmt::format("annotation {}: '{}' is no number of bytes above 0, in plain digits", key, Shown(text)));
    }
    return Say(key, text, bytes, "memory_bytes", &fields->memory_bytes);
  }
  if (key == kSmPartition) {
    uint32_t percent = 0;
    if (!HasOnly(text, "0123456789") || !Parse(text, &percent) || percent == 0 || percent > 100) {
      return Invalid(fmt::format("annotation {}: '{}' is no whole percentage of SMs from 1 to 100", key, Shown(text)));
    }
    return Say(key, text, percent, "sm_percent", &fields->sm_percent);
  }
  return Invalid(fmt::format("annotation '{}', with the value '{}', is none that this server knows: there are {}, {}, {}, {}",
                             Shown(key), Shown(text), kRequest, kLimit, kMemory, kSmPartition));
}

}  // namespace

Result<AnnotatedFields> ReadAnnotations(const VgpuAnnotations& annotations, const AnnotatedFields& given) {
  AnnotatedFields fields = given;
  for (const auto& [key, text] : annotations) RETURN_IF_ERROR(ReadOne(key, text, &fields));
  return fields;
}

}  // namespace tessera
