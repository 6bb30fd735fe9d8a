// A device page (server/device_page.h) as the daemon has it. One thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/segment.h"
#include "server/device_page.h"

namespace tessera {

// The use of an emulated device by one process or by several.
struct DeviceUse {
  uint64_t used_bytes = 0;
  uint64_t busy_ns = 0;
  uint64_t running = 0;  // kernels
};
using DeviceUses = std::array<DeviceUse, kEmulatedDevicesMax>;  // by the device's number

class EmulatedDeviceMemory {
 public:
  static Result<EmulatedDeviceMemory> Make();

  int fd() const { return file_.get(); }
  // Takes a free slot. kResourceExhausted: there is none.
  Result<uint32_t> Take();
  void Bind(uint32_t slot, pid_t owner);
  // The slot's process has ended, and what it used is free.
  void Release(uint32_t slot);
  DeviceUses UsesOf(uint32_t slot) const;
  // How long the devices have worked for processes that have ended.
  const std::array<uint64_t, kEmulatedDevicesMax>& ended_busy_ns() const { return ended_busy_ns_; }

 private:
  EmulatedDeviceMemory(UniqueFd file, Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}
  DevicePage& page() const { return *reinterpret_cast<DevicePage*>(mapping_.data()); }

  UniqueFd file_;
  Mapping mapping_;
  std::array<bool, kDeviceSlotsMax> taken_{};  // the page says so too, but others write there
  std::array<uint64_t, kEmulatedDevicesMax> ended_busy_ns_{};
};

// One slot of a page, free again when this object goes.
class DeviceSlot {
 public:
  static Result<DeviceSlot> Take(std::shared_ptr<EmulatedDeviceMemory> memory);
  DeviceSlot(DeviceSlot&& other) noexcept = default;
  DeviceSlot& operator=(DeviceSlot&&) = delete;
  ~DeviceSlot() {
    if (memory_ != nullptr) memory_->Release(number_);
  }

  int fd() const { return memory_->fd(); }
  uint32_t number() const { return number_; }
  void Bind(pid_t owner) { memory_->Bind(number_, owner); }
  DeviceUses uses() const { return memory_->UsesOf(number_); }

 private:
  DeviceSlot(std::shared_ptr<EmulatedDeviceMemory> memory, uint32_t number) : memory_(std::move(memory)), number_(number) {}

  std::shared_ptr<EmulatedDeviceMemory> memory_;  // null once moved from
  uint32_t number_;
};

}  // namespace tessera
