// Idle non-timing events per context, so that watching a stream does not create one each time. Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

struct DriverTable;    // generated/driver_table.h
class ThreadContexts;  // threads/thread_contexts.h

class EventCache {
 public:
  // Idle events kept per context; more are destroyed.
  static constexpr size_t kIdleMax = 512;

  // Both outlive it.
  EventCache(const DriverTable& driver, ThreadContexts& contexts) : driver_(driver), contexts_(contexts) {}

  // An event of `context`, idle or new. Makes `context` current for a moment when it is not; the calling thread's own is
  // put back.
  CUresult Take(CUcontext context, CUevent* event) EXCLUDES(mutex_);
  // Returns an event that nobody waits for any more. `good` false: the driver reported an error for it, so it is destroyed.
  void Put(CUcontext context, CUevent event, bool good) EXCLUDES(mutex_);
  // Destroys the idle events of a context that is about to go.
  void DropContext(CUcontext context) EXCLUDES(mutex_);

 private:
  const DriverTable& driver_;
  ThreadContexts& contexts_;
  Mutex mutex_;
  std::map<CUcontext, std::vector<CUevent>> idle_ GUARDED_BY(mutex_);
};

}  // namespace tessera
