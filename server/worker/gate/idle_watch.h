// Whether the driver has done all that a session gave it, asked of the streams themselves: nothing is recorded in them. Streams
// that wait for the client (held_streams.h) are not asked.
//
// Only the executor asks: no stream comes to be captured, and none is destroyed, while it does. What helper threads have in hand
// counts as work. Streams that are captured are not touched, nor the legacy stream of a context in which one of those is that
// waits for it: a question would end the capture (CUDA Driver API, cuStreamQuery and cuStreamIsCapturing).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "protocol/base/mutex.h"
#include "server/worker/gate/held_streams.h"

namespace tessera {

struct DriverTable;    // generated/driver_table.h
class BusyStreams;     // busy_streams.h
class ThreadContexts;  // ../threads/thread_contexts.h

class IdleWatch {
 public:
  IdleWatch(const DriverTable& driver, ThreadContexts& contexts, BusyStreams& streams)
      : driver_(driver), contexts_(contexts), streams_(streams) {}

  // The executor: work went into the legacy stream of this context, or may have.
  void NoteContext(CUcontext context) EXCLUDES(mutex_);
  // The context ends, and what it has with it. Any thread.
  void ForgetContext(CUcontext context) EXCLUDES(mutex_);
  // The program destroys a stream of this context that works still: it is destroyed when it is done, and counts until then. Once
  // it is destroyed the driver tells nothing of it. The executor.
  void DestroyWhenDone(CUstream stream, CUcontext context) EXCLUDES(mutex_);
  // Nobody asks any more: what was kept is destroyed. The executor.
  void DestroyKept() EXCLUDES(mutex_);

  // The executor hands a call to a helper thread, which says when it has made it.
  void Away() { away_.fetch_add(1, std::memory_order_relaxed); }
  void Back() { away_.fetch_sub(1, std::memory_order_release); }

  enum class Found {
    kWork,   // something works, or may
    kWaits,  // all that is not done waits for the client
    kIdle,   // everything is done
  };
  // The executor: what there is; `done` hears of each stream that is (KeyOf). What the calling thread has current is so
  // afterwards. A failed stream is done.
  Found Look(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done) EXCLUDES(mutex_);
  // What a stream is called here: the default streams of contexts are told apart.
  static uint64_t KeyOf(CUstream stream, CUcontext current) {
    const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
    return legacy ? reinterpret_cast<uint64_t>(current) : reinterpret_cast<uint64_t>(stream);
  }
  // Whether a launch into the stream is captured rather than run.
  bool Captures(CUstream stream) const;

 private:
  bool Works(CUstream stream) const;
  Found LookAtStreams(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done);
  Found LookAtKept() EXCLUDES(mutex_);

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  BusyStreams& streams_;
  std::atomic<uint32_t> away_{0};
  Mutex mutex_;
  std::set<CUcontext> used_ GUARDED_BY(mutex_);
  struct Kept {
    CUstream stream;
    CUcontext context;
  };
  std::deque<Kept> kept_ GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace tessera
