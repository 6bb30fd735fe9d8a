// One process's place in the round of those that want a device: whose slice it is stands in one word of the device page
// (server/device_page.h), which the process that has it hands on when the slice is over or it wants nothing more.
//
// Slices follow one another in the device's own time: the next one begins where the last one ended, also when the process that
// handed it on woke up late, so that equal turns are equal times on a machine whose processors are busy. (The device's time
// never lags more than kLagMaxUs: what is later than that is lost to all.) A turn that nobody has changed for kGraceUs is
// given up: its process died, was stopped, or got no processor. Whoever waits takes it away, and the one that had it is left out
// until it wants again. It keeps the slice that it had, since the next one begins later.
//
// Times are CLOCK_MONOTONIC. Not thread-safe but for Wait and SignalOwn: DeviceTime has the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "server/device_page.h"

namespace tessera::emulator {

class DeviceRound {
 public:
  static constexpr uint64_t kGraceUs = 18'000;
  static constexpr uint64_t kLagMaxUs = 20'000;

  DeviceRound(DevicePage::Device& page, const std::atomic<uint32_t>& slots_end, uint32_t slot)
      : page_(page), slots_end_(slots_end), slot_(slot) {}

  void Want(bool wants) { own().wants = wants ? 1 : 0; }
  // The end of this process's slice, in µs, after taking the turn if nobody has it; nullopt: it is somebody else's.
  std::optional<uint64_t> Look(uint64_t now_us);
  // Whether the slice that ends then is this process's still.
  bool Holds(uint64_t end_us) const { return page_.turn.load() == DeviceTurn{slot_, end_us}.word(); }
  // Ends this process's slice at `at_us` and hands the turn on: to the next that wants it, this one last of all. The end of the
  // next slice if that is this process's again.
  std::optional<uint64_t> Pass(uint64_t now_us, uint64_t at_us);
  // Lets this process's slice begin now: its new end. nullopt when it has none any more.
  std::optional<uint64_t> Restart(uint64_t now_us);

  // Counts up whenever a slice of this process begins.
  uint32_t signals() const { return page_.slots[slot_].signal.load(); }
  // Sleeps until signals() is no longer `seen`, at most for so long. Any thread.
  void Wait(uint32_t seen, uint64_t timeout_us) const;
  // How long to wait until the next look at a turn that is not this process's: until it may be taken away, but not so long that
  // a change is noticed late.
  uint64_t PatienceUs(uint64_t now_us) const;
  // Wakes this process's other threads. Any thread.
  void SignalOwn() { Signal(slot_); }

  void Publish(uint64_t busy_ns) { own().busy_ns = busy_ns; }
  void PublishRunning(uint64_t kernels) { own().running = kernels; }

 private:
  DevicePage::Slot& own() { return page_.slots[slot_]; }
  // The first after `slot`, in a circle, that wants its turn; `slot` itself last. DeviceTurn::kNobody when none does.
  uint32_t NextAfter(uint32_t slot) const;
  bool Change(uint64_t from_word, const DeviceTurn& to);
  void Signal(uint32_t slot);

  DevicePage::Device& page_;
  const std::atomic<uint32_t>& slots_end_;
  const uint32_t slot_;
  uint64_t seen_word_ = 0;      // the turn as it was last seen
  uint64_t seen_since_us_ = 0;  // since when
};

}  // namespace tessera::emulator
