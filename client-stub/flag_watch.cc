#include "client-stub/flag_watch.h"

#include <algorithm>

#include "client-stub/guest_thread.h"

namespace tessera {
namespace {

using std::chrono::microseconds;

// Most kernels are done by then.
constexpr microseconds kFirstPause{300};
// What a program that sets a flag waits for at most, unless looking takes long.
constexpr microseconds kLongestPause{5000};
constexpr int kPausePerLook = 10;

}  // namespace

FlagWatch::~FlagWatch() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void FlagWatch::Began() {
  MutexLock lock(mutex_);
  ++begun_;
  if (stopped_) return;
  if (!thread_.joinable()) thread_ = StartGuestThread("tessera-flags", [this] { Run(); });
  if (idle_) changed_.notify_all();
}

void FlagWatch::Ended(uint64_t count) {
  MutexLock lock(mutex_);
  ended_ = std::max(ended_, count);
}

void FlagWatch::Run() {
  microseconds pause = kFirstPause;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (begun_ <= ended_) pause = kFirstPause;
      while (begun_ <= ended_ && !stopped_) {
        idle_ = true;
        changed_.wait(mutex_);
        idle_ = false;
      }
      const auto until = std::chrono::steady_clock::now() + pause;
      while (!stopped_ && changed_.wait_until(mutex_, until) != std::cv_status::timeout) {
      }
      if (stopped_) return;
      if (begun_ <= ended_) continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    look_();
    const auto took = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin);
    pause = std::max(std::min(pause * 5 / 4, kLongestPause), took * kPausePerLook);
  }
}

}  // namespace tessera
