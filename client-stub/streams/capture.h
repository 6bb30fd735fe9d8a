// Knows which streams of the process are being captured, and which calls are legal meanwhile. CUDA decides that for each thread,
// but on the server all calls of a session come from one thread. So it is decided here, and the worker's threads are in RELAXED
// mode. A pure state machine: it knows no handles tables, threads or channels. Any thread may call.
//
// Source: CUDA driver API, "Stream Management" (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode) and programming
// guide, "Creating a Graph Using Stream Capture"; where they are silent, driver 580.159 was observed (stream_capture.md).
// What is not decided here is left to the server's driver: joins that are missing (904), and what a node may be.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

// A stream as capture sees it. The legacy stream of a context has `legacy` set and a key of its own.
struct StreamRef {
  uint64_t key = 0;      // the same for the same stream, unique in the process
  uint64_t context = 0;  // the stream's
  bool legacy = false;
  bool blocking = false;  // synchronises with the legacy stream (created without CU_STREAM_NON_BLOCKING)
};

class CaptureTable {
 public:
  // The calling thread: its number, and the mode of cuThreadExchangeStreamCaptureMode.
  struct Caller {
    uint32_t thread = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  };
  struct Info {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;         // of the capture; unique over the process
    bool uncertain = false;  // a call on it failed: only the server knows whether that invalidated it
  };
  enum class Ending {
    kNone,     // nothing to tell the server
    kGraph,    // the server ends the capture and has the graph
    kDiscard,  // the server ends the capture and drops the graph
  };

  // Whether no capture is in progress. Every function below asks this first, without a lock.
  bool idle() const { return captures_count_.load(std::memory_order_acquire) == 0; }

  // A potentially unsafe call: 900, and what forbade it is invalidated.
  CUresult CheckUnsafe(const Caller& caller);
  // Work is being enqueued on the stream. 906 and invalidation for the legacy stream while a blocking stream of its
  // context is captured; 901 when the stream's capture was invalidated. `capturing`: it becomes a node of a graph.
  CUresult CheckUse(const StreamRef& stream, bool* capturing);
  // An operation that no captured stream may do (graph launch, stream callback, prefetch): as CheckUse, and 900 with
  // invalidation when the stream is captured.
  CUresult CheckUncapturable(const StreamRef& stream);
  // A query or synchronisation of the stream: as CheckUncapturable, and a potentially unsafe call.
  CUresult CheckQuery(const Caller& caller, const StreamRef& stream);
  // A call that concerns all work of a context: 900 and invalidation when any stream of it is captured. Captures in other
  // contexts do not matter, whatever their mode (driver 580).
  CUresult CheckContext(uint64_t context);

  // Begins a capture; the stream is captured from now on. 1 for an unknown mode, 401 when the stream is captured already,
  // 900 or 906 for the legacy stream.
  CUresult Begin(const Caller& caller, const StreamRef& stream, CUstreamCaptureMode mode);
  // Forgets a capture that did not begin, or that ended with its stream.
  void Drop(const StreamRef& stream);
  // cuStreamEndCapture. With CUDA_SUCCESS or with kDiscard the capture is over here.
  CUresult End(const Caller& caller, const StreamRef& stream, Ending* ending);
  // cuStreamIsCapturing and cuStreamGetCaptureInfo: 906 for the legacy stream beside captured blocking ones.
  CUresult GetInfo(const StreamRef& stream, Info* info) const;
  // A call on a captured stream failed on the server.
  void SetUncertain(const StreamRef& stream);
  // The server has told the capture's status.
  void SetStatus(const StreamRef& stream, CUstreamCaptureStatus status);

  // An event is recorded on the stream. `external`: CU_EVENT_RECORD_EXTERNAL.
  CUresult RecordEvent(uint64_t event, const StreamRef& stream, bool external, bool* capturing);
  // A stream waits for an event. `recorded`: whether the event was ever recorded outside of captures. The stream joins the
  // event's capture. 902 two captures would become one, 905 a captured stream would wait for work outside, 906 the legacy
  // stream would join, 1 the event's capture is over.
  CUresult WaitEvent(const StreamRef& stream, uint64_t event, bool recorded, bool external, bool* capturing);
  // Query and synchronisation of an event: 907 and invalidation when it was recorded in a capture, 1 when that is over.
  CUresult CheckEventQuery(const Caller& caller, uint64_t event);
  // Elapsed time: as above, but nothing is invalidated and the call is not potentially unsafe.
  CUresult CheckEventTime(uint64_t event) const;
  void ForgetEvent(uint64_t event);

  // The stream or the context was destroyed. Destroying the stream on which a capture began ends it.
  void ForgetStream(uint64_t key);
  void ForgetContext(uint64_t context);

 private:
  struct Capture {
    uint64_t id = 0;
    uint64_t origin = 0;  // key of the stream on which it began
    uint32_t thread = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    bool invalid = false;
    bool uncertain = false;
    std::unordered_map<uint64_t, StreamRef> streams;
  };

  Capture* Of(uint64_t stream_key) REQUIRES(mutex_);
  const Capture* Of(uint64_t stream_key) const REQUIRES(mutex_);
  // The live capture in which an event was recorded last; `over` when it was one that has ended or was invalidated.
  Capture* OfEvent(uint64_t event, bool* over) REQUIRES(mutex_);
  void Invalidate(Capture& capture) REQUIRES(mutex_);
  void Erase(uint64_t id) REQUIRES(mutex_);
  void Join(Capture& capture, const StreamRef& stream) REQUIRES(mutex_);
  bool LegacyIsBlocked(uint64_t context, bool invalidate) REQUIRES(mutex_);
  CUresult CheckUnsafeLocked(const Caller& caller) REQUIRES(mutex_);
  CUresult CheckUseLocked(const StreamRef& stream, Capture** capture) REQUIRES(mutex_);
  bool NothingMarked() const { return idle() && events_count_.load(std::memory_order_acquire) == 0; }

  std::atomic<size_t> captures_count_{0};
  std::atomic<size_t> events_count_{0};
  mutable Mutex mutex_;
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, Capture> captures_ GUARDED_BY(mutex_);    // by id
  std::unordered_map<uint64_t, uint64_t> of_stream_ GUARDED_BY(mutex_);  // stream key -> capture id
  // Events whose last record was in a capture, with its id, until they are recorded outside or destroyed.
  std::unordered_map<uint64_t, uint64_t> of_event_ GUARDED_BY(mutex_);
};

}  // namespace tessera
