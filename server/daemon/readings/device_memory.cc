#include "server/daemon/readings/device_memory.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr uint64_t kFileBytes = (sizeof(DevicePage) + kPageBytes - 1) / kPageBytes * kPageBytes;

}  // namespace

Result<EmulatedDeviceMemory> EmulatedDeviceMemory::Make() {
  // Sealed: a worker cannot take away the page under our feet.
  Result<UniqueFd> file = CreateSegmentFile("tessera-device-page", kFileBytes);
  if (!file.ok()) return file.status();
  Result<Mapping> mapping = Mapping::Map(file->get(), kFileBytes, 0, MapPlacement::Anywhere());
  if (!mapping.ok()) return mapping.status();
  return EmulatedDeviceMemory(std::move(file).value(), std::move(mapping).value());
}

Result<uint32_t> EmulatedDeviceMemory::Take() {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return Status(StatusCode::kResourceExhausted, "the emulated devices have no room for more processes");
  *free = true;
  const auto slot = static_cast<uint32_t>(free - taken_.begin());
  if (page().slots_end <= slot) page().slots_end = slot + 1;
  return slot;
}

void EmulatedDeviceMemory::Bind(uint32_t slot, pid_t owner) { page().owners[slot] = static_cast<uint32_t>(owner); }

void EmulatedDeviceMemory::Release(uint32_t slot) {
  const DeviceUses uses = UsesOf(slot);
  for (size_t i = 0; i < uses.size(); ++i) ended_busy_ns_[i] += uses[i].busy_ns;
  for (DevicePage::Device& device : page().devices) {
    DevicePage::Slot& row = device.slots[slot];
    row.wants = 0;
    row.asked_bytes = 0;
    row.used_bytes = 0;
    row.busy_ns = 0;
    row.running = 0;
    // Whoever waits for the slice finds the device free.
    uint64_t turn = device.turn;
    if (DeviceTurn::Of(turn).slot == slot) device.turn.compare_exchange_strong(turn, 0);
  }
  page().owners[slot] = 0;
  taken_[slot] = false;
}

DeviceUses EmulatedDeviceMemory::UsesOf(uint32_t slot) const {
  DeviceUses uses;
  for (size_t i = 0; i < uses.size(); ++i) {
    const DevicePage::Slot& row = page().devices[i].slots[slot];
    uses[i] = {row.used_bytes, row.busy_ns, row.running};
  }
  return uses;
}

Result<DeviceSlot> DeviceSlot::Take(std::shared_ptr<EmulatedDeviceMemory> memory) {
  Result<uint32_t> number = memory->Take();
  if (!number.ok()) return number.status();
  return DeviceSlot(std::move(memory), *number);
}

}  // namespace tessera
