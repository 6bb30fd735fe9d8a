// Finds out whether the driver has done all of a session's work. It asks the streams themselves, and records nothing in them.
// Streams that wait for the client (held_streams.h) are not asked.
//
// Only the executor asks, so meanwhile no stream begins a capture or is destroyed. Calls in helper threads count as work. A
// captured stream is not asked. Nor is the legacy stream of a context with a captured stream that waits for it: a question would
// end the capture (CUDA Driver API, cuStreamQuery and cuStreamIsCapturing). What was in such a stream before has a mark: an event
// that is recorded behind it before the capture begins, and asked instead of the stream. It outlives a stream that is destroyed.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
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
  // The context ends, with all that it has. Any thread.
  void ForgetContext(CUcontext context) EXCLUDES(mutex_);
  // The program destroys a stream of this context that still works. The stream is destroyed once its work is done, and counts
  // until then: the driver tells nothing of a destroyed stream. The executor.
  void DestroyWhenDone(CUstream stream, CUcontext context) EXCLUDES(mutex_);
  // Destroys the streams that were kept, when nobody asks any more. The executor.
  void DestroyKept() EXCLUDES(mutex_);

  // The stream is about to capture: marks what it and the legacy stream have to do. The executor and aside threads.
  void BeforeCapture(CUstream stream) EXCLUDES(mutex_);
  // The stream is about to wait for an event, by which it joins a capture if that event was captured. Costs one load while
  // nothing captures. The executor and aside threads.
  void BeforeWait(CUstream stream) {
    if (capturing_count_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      BeforeWaitInCapture(stream);
  }
  // The stream is about to be destroyed; its marks stay. Any thread.
  void StreamGoes(CUstream stream) EXCLUDES(mutex_);

  // The executor hands a call to a helper thread, which says when it has made it.
  void Away() { away_.fetch_add(1, std::memory_order_relaxed); }
  void Back() { away_.fetch_sub(1, std::memory_order_release); }

  enum class Found {
    kWork,   // something works, or may
    kWaits,  // all unfinished work waits for the client
    kIdle,   // everything is done
  };
  // Asks all streams. Calls `done` for each stream that has finished or failed (KeyOf()). Leaves the calling thread's current
  // context as it is. The executor.
  Found Look(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done) EXCLUDES(mutex_);
  // The key of a stream. It tells the default streams of contexts apart.
  static uint64_t KeyOf(CUstream stream, CUcontext current) {
    const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
    return legacy ? reinterpret_cast<uint64_t>(current) : reinterpret_cast<uint64_t>(stream);
  }
  // Whether a launch into the stream is captured rather than run.
  bool Captures(CUstream stream) const;

 private:
  // What a stream had to do before it captured.
  struct Mark {
    uint64_t key;     // of its stream
    CUstream stream;  // null: it is destroyed
    CUcontext context;
    CUevent event;  // null, of the legacy stream, or if the driver makes none: it counts until the capture has ended
  };
  struct Kept {
    CUstream stream;
    CUcontext context;
  };
  bool Works(CUstream stream) const;
  void BeforeWaitInCapture(CUstream stream) EXCLUDES(mutex_);
  bool AnyCaptures() EXCLUDES(mutex_);
  // Marks what the stream has to do, and the legacy stream if that cannot be asked while this one captures. `begins`: the stream
  // begins a capture.
  void MarkBeforeCapture(CUstream stream, bool begins) EXCLUDES(mutex_);
  // Of a stream of the current context, if it has anything to do.
  void MarkWork(CUstream stream, CUcontext context) EXCLUDES(mutex_);
  // Marks whose work is done, or whose stream can be asked again, go. Calls `done` for those whose work is done.
  Found LookAtMarks(const std::function<void(uint64_t stream)>& done) EXCLUDES(mutex_);
  Found LookAtStreams(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done);
  Found LookAtKept(const std::function<void(uint64_t stream)>& done) EXCLUDES(mutex_);
  void RestoreContext(CUcontext context);

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  BusyStreams& streams_;
  std::atomic<uint32_t> away_{0};
  std::atomic<size_t> capturing_count_{0};  // size of capturing_
  Mutex mutex_;
  std::set<CUcontext> used_ GUARDED_BY(mutex_);
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
  std::vector<Mark> marks_ GUARDED_BY(mutex_);
  std::vector<Kept> capturing_ GUARDED_BY(mutex_);  // they began a capture, and may have ended it
};

}  // namespace tessera
