// Handles that kernels have of graphs and nodes. On a device they are addresses, which the driver gives again at once when an
// object is destroyed.
// Source: driver 580.159.04 on an H200.
#pragma once

#include <cstdint>

namespace tessera::emulator {

// The handle of an object that kernels name: an address on a device, taken as long as this lives. Any thread.
class DeviceHandle {
 public:
  DeviceHandle();
  ~DeviceHandle();
  DeviceHandle(const DeviceHandle&) = delete;
  DeviceHandle& operator=(const DeviceHandle&) = delete;
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

}  // namespace tessera::emulator
