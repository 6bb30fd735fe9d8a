#include "client-stub/memory/flag_watch.h"

#include <algorithm>

#include "client-stub/process/guest_thread.h"
#include "protocol/memory/look_pace.h"

namespace tessera {

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
  LookPace pace;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (begun_ <= ended_) pace.Rest();
      while (begun_ <= ended_ && !stopped_) {
        idle_ = true;
        changed_.wait(mutex_);
        idle_ = false;
      }
      const auto until = std::chrono::steady_clock::now() + pace.pause();
      while (!stopped_ && changed_.wait_until(mutex_, until) != std::cv_status::timeout) {
      }
      if (stopped_) return;
      if (begun_ <= ended_) continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    look_();
    pace.Looked(std::chrono::steady_clock::now() - begin);
  }
}

}  // namespace tessera
