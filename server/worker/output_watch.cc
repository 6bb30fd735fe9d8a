#include "server/worker/output_watch.h"

#include <chrono>
#include <utility>

#include "server/worker/reply_writer.h"

namespace tessera {

void OutputWatch::Start() {
  MutexLock lock(mutex_);
  if (!stop_ && !thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

void OutputWatch::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    thread = std::move(thread_);
  }
  stop_changed_.notify_one();
  if (thread.joinable()) thread.join();
}

void OutputWatch::Loop() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stop_changed_.wait_for(mutex_, std::chrono::milliseconds(kPeriodMs), [this] { return stop_; })) return;
    }
    replies_.DrainDeviceOutput();
  }
}

}  // namespace tessera
