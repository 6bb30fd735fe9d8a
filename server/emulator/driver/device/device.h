// One emulated device: how much of its memory is taken, and what belongs to it from the start.
// Any thread, where nothing else is said.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "server/usage_page.h"

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
  uint64_t used_bytes() const { return used_bytes_.load(); }
  // Takes `bytes` of the device's memory; false when there is not that much left.
  bool Charge(uint64_t bytes);
  void Discharge(uint64_t bytes);
  // What others see of the device's use.
  UsagePage::Device& usage() { return usage_; }

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
  std::atomic<uint64_t> used_bytes_{0};
  UsagePage::Device& usage_;
};

}  // namespace tessera::emulator
