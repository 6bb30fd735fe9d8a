#include "netaware/node/server_devices.h"

#include <algorithm>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

// NVML_TOPOLOGY_MULTIPLE: a path through PCIe switches alone, without a host bridge.
constexpr uint64_t kSwitchesAlone = 20;
constexpr size_t kPciBytesMax = 32;

// The lowest number of a device that the device reaches through PCIe switches alone; the device's own number if there is no
// lower one.
std::optional<uint32_t> PciGroupOf(uint32_t device, const std::vector<ServerReport::Value>& readings) {
  std::optional<uint32_t> group;
  for (uint32_t other = 0; other < DeviceSnapshot::kDevicesMax; ++other) {
    const auto level = std::ranges::find(readings, Reading::kCommonAncestor + other, &ServerReport::Value::reading);
    if (level == readings.end()) continue;
    const bool shares = other == device || level->value <= kSwitchesAlone;
    group = std::min(group.value_or(device), shares ? other : device);
  }
  return group;
}

}  // namespace

std::map<std::string, ServerDevice> DevicesOf(const DeviceSnapshot& snapshot,
                                              const std::vector<std::vector<ServerReport::Value>>& links) {
  std::map<std::string, ServerDevice> devices;
  for (uint32_t number = 0; number < snapshot.devices.size(); ++number) {
    const DeviceSnapshot::Device& device = snapshot.devices[number];
    ServerDevice& known = devices[device.UuidText()];
    known.model = Printable(device.name);
    known.pci = Printable(device.pci_bus_id, kPciBytesMax);
    if (const int32_t numa = device.HostNuma(); numa >= 0) known.numa = static_cast<uint32_t>(numa);
    if (number < links.size()) known.pci_group = PciGroupOf(number, links[number]);
  }
  return devices;
}

}  // namespace tessera
