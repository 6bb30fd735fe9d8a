// An event: the fence of the command that recorded it last, or the point of a capture it was recorded in.
// Source: CUDA driver API, "Event Management".
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "server/emulator/driver/base/fence.h"
#include "server/emulator/driver/core/command.h"

namespace tessera::emulator {

struct Capture;
class SharedEvent;

class Event {
 public:
  Event(uint64_t context_handle, unsigned flags, std::shared_ptr<SharedEvent> shared = nullptr)
      : context_handle_(context_handle), flags_(flags), shared_(std::move(shared)) {}
  uint64_t context_handle() const { return context_handle_; }
  unsigned flags() const { return flags_; }
  // Of an interprocess event, which its own record() then only orders within this process; else null.
  const std::shared_ptr<SharedEvent>& shared() const { return shared_; }
  bool timed() const { return (flags_ & CU_EVENT_DISABLE_TIMING) == 0; }

  // Null when the event was never recorded.
  FencePtr record() const {
    std::lock_guard lock(mutex_);
    return record_;
  }
  void SetRecord(FencePtr fence) {
    std::lock_guard lock(mutex_);
    record_ = std::move(fence);
  }

  std::shared_ptr<Capture> capture;            // guarded by Driver::graph_mutex; null unless recorded during a capture
  std::vector<uint64_t> capture_dependencies;  // likewise

 private:
  const uint64_t context_handle_;
  const unsigned flags_;
  const std::shared_ptr<SharedEvent> shared_;
  mutable std::mutex mutex_;
  FencePtr record_;
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace tessera::emulator
