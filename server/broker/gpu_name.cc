#include "server/broker/gpu_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "protocol/base/printable.h"

namespace tessera {

std::string GpuName(const GpusMessage::Uuid& uuid) {
  std::string name = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += fmt::format("{:02x}", std::to_integer<unsigned>(uuid[i]));
  }
  return name;
}

Result<uint32_t> FindGpu(std::string_view name, std::span<const GpusMessage::Uuid> gpus) {
  const auto equal = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (uint32_t number = 0; number < gpus.size(); ++number) {
    const std::string uuid = GpuName(gpus[number]);
    if (std::equal(name.begin(), name.end(), uuid.begin(), uuid.end(), equal)) return number;
  }
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && number < gpus.size()) return number;
  return Status(StatusCode::kInvalidArgument,
                fmt::format("gpu {}: the server has {} GPU{}, numbered from 0; 'tessera status' shows their UUIDs",
                            Printable(name), gpus.size(), gpus.size() == 1 ? "" : "s"));
}

}  // namespace tessera
