// When the work is done that uses mirrors of host memory: until then their changes are told with everything that the client
// hears of, and a flag that a kernel sets is told while it runs; when it is done, once more, though nobody asks: a program may
// be waiting for what a kernel writes there, without a call.
//
// An event of each stream is recorded again behind each piece of work, so a stream that is never idle costs one look at it now
// and then. A LookThread looks at them. It goes on while an event is recorded: the driver's queue may be full of what waits for a
// flag that is still to be told.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/memory/look_thread.h"
#include "protocol/wire/handle.h"
#include "server/worker/streams/stream_key.h"

namespace tessera {

class CallContext;
class Worker;

class MirrorWatch {
 public:
  // `tell` sends what changed, if it is `lone` only when it is a single word. Called on several threads.
  MirrorWatch(Worker& worker, std::function<void(bool lone)> tell);

  // `stream`, the driver's for `id`, was given work. Where its end cannot be heard of (a stream of another context than the
  // current one, an event that the driver refuses) work counts as never done. Executor thread.
  void Used(CallContext& call, HandleId id, CUstream stream) EXCLUDES(mutex_);
  // Some of the work may not be done, or not all that it wrote was told. Any thread.
  bool working() const { return working_.load(std::memory_order_acquire); }
  // The context is about to be destroyed or reset: its work counts as done. It must be current, and is given no more work
  // meanwhile.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  struct Recorded {
    CUcontext context = nullptr;
    CUevent event = nullptr;
  };

  // The event of the stream, if it has one, which nobody else looks at until it is given back: the work is not done before.
  Recorded Begin(const StreamKey& key) EXCLUDES(mutex_);
  // Records the event, made if there was none. Calls the driver, which may wait: without the lock.
  CUresult Record(CUstream stream, Recorded* recorded) EXCLUDES(mutex_);
  void Look() EXCLUDES(mutex_);
  // Looks at all events; those that are done go. True when none is left, and none is being recorded.
  bool AllDone() REQUIRES(mutex_);

  Worker& worker_;
  const std::function<void(bool lone)> tell_;
  std::atomic<bool> working_{false};
  Mutex mutex_;
  std::map<StreamKey, Recorded> recorded_ GUARDED_BY(mutex_);
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  bool recording_ GUARDED_BY(mutex_) = false;  // an event is out of recorded_
  bool never_done_ GUARDED_BY(mutex_) = false;
  LookThread looks_;  // last: it uses the others
};

}  // namespace tessera
