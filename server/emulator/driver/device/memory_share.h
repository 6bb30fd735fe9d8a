// This process's part of a device's memory, which all the processes of a device page share (server/device_page.h).
//
// Taken memory never exceeds the device's, whoever takes at the same time: a process writes down what it asks for before it adds
// up what the others have and ask for, so of two one at least sees the other. Two that are in one another's way withdraw and ask
// again, for up to kAskNs: one that died or stopped while it asked is in nobody's way for longer. No lock is shared. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "server/device_page.h"

namespace tessera::emulator {

class MemoryShare {
 public:
  static constexpr uint64_t kAskNs = 20'000'000;

  // `slots_end`: as in the page.
  MemoryShare(DevicePage::Device& page, const std::atomic<uint32_t>& slots_end, uint32_t slot, uint64_t total_bytes)
      : page_(page), slots_end_(slots_end), slot_(slot), total_bytes_(total_bytes) {}

  // False when there is not that much left.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);
  // No more than the device has.
  uint64_t used_by_all() const;

 private:
  struct Sum {
    uint64_t used_bytes = 0, asked_bytes = 0;
  };
  Sum OfOthers() const;

  DevicePage::Device& page_;
  const std::atomic<uint32_t>& slots_end_;
  const uint32_t slot_;
  const uint64_t total_bytes_;
  mutable std::mutex mutex_;
  uint64_t used_bytes_ = 0;  // guarded by mutex_
};

}  // namespace tessera::emulator
