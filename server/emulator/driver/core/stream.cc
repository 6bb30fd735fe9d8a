#include "server/emulator/driver/core/stream.h"

#include "server/emulator/driver/base/options.h"
#include "server/emulator/driver/device/device_time.h"

namespace tessera::emulator {

FencePtr Stream::tail() const {
  std::lock_guard lock(mutex_);
  return tail_;
}

void Stream::WaitForRoom() {
  const size_t most = GetOptions().queue_commands;
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return queue_.size() < most; });
}

void Stream::Append(std::function<void()> work, std::vector<FencePtr> after, FencePtr fence) {
  bool start = false;
  {
    std::lock_guard lock(mutex_);
    tail_ = fence;
    queue_.push_back({std::move(work), std::move(after), std::move(fence)});
    start = !draining_;
    draining_ = true;
  }
  if (start) threads_.Run([self = shared_from_this()] { self->Drain(); });
}

void Stream::Drain() {
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty()) {
        draining_ = false;
        lock.unlock();
        return LeaveDevice();
      }
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    room_.notify_all();
    for (const FencePtr& fence : entry.after) {
      if (fence->done()) continue;
      LeaveDevice();
      fence->Wait();
    }
    entry.work();
    FencePtr fence = std::move(entry.fence);
    // What the work holds goes before anyone learns that it is done.
    entry.work = nullptr;
    fence->Complete();
  }
}

}  // namespace tessera::emulator
