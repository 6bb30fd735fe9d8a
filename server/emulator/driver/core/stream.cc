#include "server/emulator/driver/core/stream.h"

#include "server/emulator/driver/core/state.h"

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

void Stream::Append(ContextPtr context, CommandPtr command, std::vector<FencePtr> after, FencePtr fence) {
  bool start = false;
  {
    std::lock_guard lock(mutex_);
    tail_ = fence;
    queue_.push_back({std::move(context), std::move(command), std::move(after), std::move(fence)});
    start = !draining_;
    draining_ = true;
  }
  if (start) GetDriver().RunOnThread([self = shared_from_this()] { self->Drain(); });
}

void Stream::Drain() {
  while (true) {
    Entry entry;
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) {
        draining_ = false;
        return;
      }
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    room_.notify_all();
    RunEntry(entry);
    FencePtr fence = std::move(entry.fence);
    // What the command holds goes before anyone learns that it is done.
    entry.command.reset();
    fence->Complete();
  }
}

void Stream::RunEntry(Entry& entry) {
  for (const FencePtr& fence : entry.after) fence->Wait();
  Context& context = *entry.context;
  if (!context.cancelled()) GetDriver().RandomPause();
  if (context.cancelled()) return entry.command->Skip(context);
  const CUresult result = entry.command->Execute(context);
  if (result != CUDA_SUCCESS) context.Fail(result);
}

}  // namespace tessera::emulator
