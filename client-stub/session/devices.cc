#include "client-stub/session/devices.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "client-stub/session/filtered_attributes.h"

namespace tessera {
namespace {

// Domain, bus, device and function of "0000:02:00.0", "02:00.0", "02:00" and "0000:02:00" (cuDeviceGetByPCIBusId);
// false for anything else.
bool ParseBusId(std::string_view text, long (&parts)[4]) {
  std::string rest(text);
  parts[0] = parts[3] = 0;
  if (const size_t dot = rest.find('.'); dot != std::string::npos) {
    char* end = nullptr;
    const std::string function = rest.substr(dot + 1);
    parts[3] = std::strtol(function.c_str(), &end, 16);
    if (function.empty() || *end != '\0') return false;
    rest.resize(dot);
  }
  const long colons = std::count(rest.begin(), rest.end(), ':');
  if (colons != 1 && colons != 2) return false;
  for (long i = 2 - colons; i < 3; ++i) {
    const size_t colon = rest.find(':');
    const std::string part = rest.substr(0, colon);
    char* end = nullptr;
    parts[i] = std::strtol(part.c_str(), &end, 16);
    if (part.empty() || *end != '\0' || parts[i] < 0) return false;
    rest = colon == std::string::npos ? std::string() : rest.substr(colon + 1);
  }
  return true;
}

}  // namespace

Devices::Devices(DeviceSnapshot snapshot, bool mirrored, std::vector<CUdevice> ordinals, const DeviceDisguise& disguise)
    : snapshot_(std::move(snapshot)), ordinals_(std::move(ordinals)) {
  driver_version_ = std::min<int>(snapshot_.driver_version, CUDA_VERSION);
  for (size_t i = ordinals_.size(); i < snapshot_.devices.size(); ++i) ordinals_.push_back(static_cast<CUdevice>(i));
  for (size_t i = 0; i < snapshot_.devices.size(); ++i) {
    const auto ordinal = static_cast<size_t>(ordinals_[i]);
    if (numbers_.size() <= ordinal) numbers_.resize(ordinal + 1, -1);
    numbers_[ordinal] = static_cast<int>(i);
  }
  for (DeviceSnapshot::Device& device : snapshot_.devices) {
    disguise.Apply(&device);
    for (size_t i = 1; i < device.attributes.size(); ++i) {
      DeviceSnapshot::Answer& answer = device.attributes[i];
      if (answer.result != CUDA_SUCCESS) continue;
      if (const std::optional<int> value = FilteredValue(static_cast<int>(i), answer.value, mirrored)) answer.value = *value;
    }
  }
}

CUresult Devices::Attribute(CUdevice device, int attribute, int* value) const {
  const auto& attributes = (*this)[device].attributes;
  if (attribute <= 0 || static_cast<size_t>(attribute) >= attributes.size()) return CUDA_ERROR_INVALID_VALUE;
  const DeviceSnapshot::Answer& answer = attributes[attribute];
  if (answer.result == CUDA_SUCCESS) *value = answer.value;
  return static_cast<CUresult>(answer.result);
}

CUresult Devices::P2PAttribute(CUdevice from, CUdevice to, int attribute, int* value) const {
  const int attributes = static_cast<int>(snapshot_.p2p_attributes);
  if (attribute <= 0 || attribute > attributes) return CUDA_ERROR_INVALID_VALUE;
  const DeviceSnapshot::Answer& answer = snapshot_.p2p[(NumberOf(from) * count() + NumberOf(to)) * attributes + (attribute - 1)];
  if (answer.result == CUDA_SUCCESS) *value = answer.value;
  return static_cast<CUresult>(answer.result);
}

std::optional<CUdevice> Devices::FindPciBusId(std::string_view bus_id) const {
  long wanted[4];
  if (!ParseBusId(bus_id, wanted)) return std::nullopt;
  for (int i = 0; i < count(); ++i) {
    long parts[4];
    if (ParseBusId(snapshot_.devices[i].pci_bus_id, parts) && std::equal(wanted, wanted + 4, parts)) return ordinals_[i];
  }
  return std::nullopt;
}

}  // namespace tessera
