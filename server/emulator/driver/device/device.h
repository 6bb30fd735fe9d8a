// One emulated device: how much of its memory is taken, and what belongs to it from the start.
// Any thread, where nothing else is said.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "server/emulator/driver/device/device_time.h"
#include "server/emulator/driver/device/memory_share.h"

namespace tessera::emulator {

// A device's graph memory (graphs/graph_memory.h), in bytes.
struct GraphMemoryUse {
  std::mutex mutex;  // guards the rest
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;  // taken from the device; never less than what is live
  uint64_t live = 0;
};

class Device {
 public:
  Device(int number, uint64_t total_bytes);
  int number() const { return number_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // By all processes that share the device.
  uint64_t used_bytes() const { return memory_.used_by_all(); }
  // Takes `bytes` of the device's memory; false when there is not that much left.
  bool Charge(uint64_t bytes) { return memory_.Take(bytes); }
  void Discharge(uint64_t bytes) { memory_.GiveBack(bytes); }
  DeviceTime& time() { return time_; }

  uint64_t primary_handle = 0;
  std::mutex primary_mutex;
  int primary_count = 0;       // guarded by primary_mutex
  unsigned primary_flags = 0;  // guarded by primary_mutex
  uint64_t default_pool = 0;   // handle, set at initialisation
  std::atomic<uint64_t> current_pool{0};
  GraphMemoryUse graph_memory;

 private:
  const int number_;
  const uint64_t total_bytes_;
  MemoryShare memory_;
  DeviceTime time_;
};

}  // namespace tessera::emulator
