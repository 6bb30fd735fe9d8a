// Finds out when the work that uses mirrors of host memory is done. Until then the mirrors' changes are sent with everything that
// tells the client something. A flag that a kernel sets is sent while the kernel runs. When the work is done the changes are sent
// once more, though no call asks for them: a program may wait, without a call, for what a kernel writes there.
//
// Each stream has an event, which is recorded again behind each piece of work. So a stream that is never idle costs one look at
// its event now and then. A LookThread looks at the events. It goes on while an event is being recorded: the driver's queue may
// be full of work that waits for a flag that is not sent yet.
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
  // `tell` sends what changed; with `lone`, only if that is a single word. It is called on several threads.
  MirrorWatch(Worker& worker, std::function<void(bool lone)> tell);

  // Notes that `stream`, the driver's for `id`, was given work. If nothing can tell its end, the work counts as never done: the
  // stream belongs to another context than the current one, or the driver refuses an event. Executor thread.
  void Used(CallContext& call, HandleId id, CUstream stream) EXCLUDES(mutex_);
  // True: some of the work may not be done, or not all that it wrote was sent. Any thread.
  bool working() const { return working_.load(std::memory_order_acquire); }
  // Call this when the context is about to be destroyed or reset. It must be current and get no more work meanwhile. Its work
  // counts as done.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  struct Recorded {
    CUcontext context = nullptr;
    CUevent event = nullptr;
  };

  // Takes the stream's event out of recorded_, if it has one. Until it is put back nobody else looks at it, and the work does not
  // count as done.
  Recorded Begin(const StreamKey& key) EXCLUDES(mutex_);
  // Records the event, and makes it if there is none. Does not hold the lock while it calls the driver, which may wait.
  CUresult Record(CUstream stream, Recorded* recorded) EXCLUDES(mutex_);
  void Look() EXCLUDES(mutex_);
  // Looks at all events and removes those that are done. True: none is left, and none is being recorded.
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
