// A device's time as the kernels of this process use it.
//
// While kernels of several processes want the device it runs one process at a time, in slices of 2 ms (device_round.h); alone, a
// process has all of it. Two kinds of kernels use it:
// - A kernel of stated duration occupies the device for so long (Occupy), asleep. Those of several streams do so one after the
//   other, each as if it filled the device.
// - Any other kernel uses it while it is interpreted (Body), those of several streams at once.
// What the process has used is counted exactly: whole slices, parts of them, and never the same moment twice.
//
// A stream is on the device from its first kernel (Join) until it has nothing more to do, waits for somebody else or copies for
// long (Leave): in between the process keeps its slice, so that many short kernels get as much as few long ones.
// Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

#include "server/emulator/driver/device/device_round.h"
#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

class DeviceTime {
 public:
  DeviceTime(DevicePage::Device& page, const std::atomic<uint32_t>& slots_end, uint32_t slot) : round_(page, slots_end, slot) {}

  // A stream comes and goes. Each Join has its Leave, by the same thread.
  void Join();
  void Leave();

  // Blocks until the device has worked for so long for the caller, who has joined; returns early when `cancelled`.
  void Occupy(uint64_t duration_ns, const std::atomic<bool>* cancelled);

  // The time in which one kernel is interpreted by somebody who has joined: the interpreter goes on while the process has its
  // slice.
  class Body : public TurnSource {
   public:
    Body(DeviceTime& time, const std::atomic<bool>* cancelled) : time_(time), cancelled_(cancelled) { time_.BeginBody(); }
    ~Body() override { time_.EndBody(); }
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;
    void Await() override { time_.AwaitSlice(cancelled_); }

   private:
    DeviceTime& time_;
    const std::atomic<bool>* const cancelled_;
  };

 private:
  void BeginBody();
  void EndBody();
  // Returns at once while the slice goes on, as a rule without a lock.
  void AwaitSlice(const std::atomic<bool>* cancelled);

  // The rest with mutex_ held.
  // Whether the process has its slice now; takes one where it can, hands on what is over.
  bool HasSlice(uint64_t now_ns);
  bool TakeSlice(uint64_t now_ns);
  // Looks whether somebody has taken the slice away.
  void CheckSlice(uint64_t now_ns);
  void WaitForSlice(std::unique_lock<std::mutex>& lock, uint32_t signals_seen);
  // Everything until then is used.
  void Use(uint64_t until_ns);
  // Shows how many kernels, of either kind, are on the device or wait for it.
  void ShowRunning() { round_.PublishRunning(static_cast<uint64_t>(bodies_) + occupying_.size()); }

  std::mutex mutex_;
  // Guarded by mutex_.
  DeviceRound round_;
  int streams_ = 0, bodies_ = 0, waiting_ = 0;
  uint64_t used_until_ns_ = 0;      // CLOCK_MONOTONIC; what the process does next on the device begins here
  uint64_t busy_ns_ = 0;            // in all
  std::list<int> occupying_;        // those who occupy the device, in the order of their turns
  std::condition_variable turned_;  // the first of them has gone

  std::atomic<uint64_t> slice_end_ns_{0};  // 0: not ours; changed with mutex_ held
};

// The stream whose work the calling thread does is on the device from now on; or no more, if it was.
void JoinDevice(DeviceTime& time);
void LeaveDevice();

}  // namespace tessera::emulator
