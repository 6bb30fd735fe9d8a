// What the stub knows of streams and events. It can answer questions about them, and tell the streams of a capture apart, without
// asking the server. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "client-stub/process/process_part.h"
#include "client-stub/process/slot_table.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/last_sequence.h"
#include "client-stub/streams/capture.h"
#include "protocol/base/mutex.h"

namespace tessera {

struct Context;

struct StreamInfo {
  uint64_t number = 0;  // cuStreamGetId: from 1, never used again in the process
  HandleId context;
  HandleId owner;  // of the events it may record: the context, or of a green one the primary context
  CUdevice device = 0;
  unsigned flags = 0;
  int priority = 0;
  // Sequences of records (session.h) that created it, and that gave it work last. 0: none.
  LastSequence created;
  LastSequence worked;
  // The last record that gave it work which may wait for something; and up to which record all work was seen done
  // (idle_streams.h).
  LastSequence held;
  LastSequence passed;
  // Not 0: a host function gave it work past the ring.
  LastSequence worked_aside;

  // Nothing was ever enqueued.
  bool fresh() const { return worked.value() == 0 && worked_aside.value() == 0; }
};

struct EventInfo {
  HandleId context;  // never a green one
  unsigned flags = 0;
  bool foreign = false;  // opened from another process
  // It was recorded outside captures at least once. Waiting for an event that was not is legal everywhere.
  std::atomic<bool> recorded{false};
  // Sequences of records: the last that named (questions do not count) or created it, the last that recorded it. 0: none.
  LastSequence named;
  LastSequence changed;
  // A host function recorded it past the ring, when the record of this sequence was not sent yet.
  LastSequence changed_aside;
  // It was done when all records up to this one had been executed; 0: it never was asked, or was not.
  LastSequence done;

  // A new event. Before it can be found.
  void Begin(HandleId its_context, unsigned its_flags, bool is_foreign);
  // Whether it was seen done and was not recorded since. Then the server need not be asked.
  bool KnownDone() const;
  // Whether it was never recorded, in this process or another. The driver says of such an event that it is done.
  bool fresh() const;
  bool interprocess() const { return (flags & CU_EVENT_INTERPROCESS) != 0; }
};

// Launches of graphs that may have recorded events.
class GraphRecords {
 public:
  static GraphRecords& Process() { return PartOfProcess<GraphRecords>::Get(); }

  // Graphs of the process may record events (cuGraphAddEventRecordNode, external records): from then on each launch of a graph
  // counts as a record of every event.
  void NoteEvents() { any_.store(true, std::memory_order_relaxed); }
  // A graph was launched in the session with this index by the record of this sequence.
  void NoteLaunch(uint32_t session_index, uint64_t sequence) {
    if (any_.load(std::memory_order_relaxed)) last_[session_index].Raise(sequence);
  }
  // The last launch in that session that may have recorded events; 0: none.
  uint64_t Last(uint32_t session_index) const { return last_[session_index].value(); }

 private:
  std::atomic<bool> any_{false};
  LastSequence last_[uint32_t{1} << HandleId::kSessionBits];
};

class StreamTable {
 public:
  // Keeps a stream that was created under `handle`. False: out of memory.
  bool Add(HandleId handle, const Context& context, unsigned flags, int priority);
  StreamInfo* Find(HandleId handle) { return streams_.Find(handle); }
  void Erase(HandleId handle);

  // The number of a context's legacy stream, and of a thread's own stream in a context; made on first use. The hidden
  // tables of cuBLAS compare them.
  uint64_t LegacyNumber(HandleId context) EXCLUDES(mutex_) { return SpecialNumber(context, 0); }
  uint64_t OwnNumber(HandleId context, uint32_t thread) EXCLUDES(mutex_) { return SpecialNumber(context, thread); }

  // Everything of a context that has ended: its streams are no longer live, captures on them are over.
  void ForgetContext(Session& session, HandleId context) EXCLUDES(mutex_);

 private:
  uint64_t SpecialNumber(HandleId context, uint32_t thread) EXCLUDES(mutex_);

  std::atomic<uint64_t> next_number_{1};
  SlotTable<StreamInfo> streams_;
  Mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> special_ GUARDED_BY(mutex_);  // (context, thread or 0)
};

// Of this process.
inline StreamTable& Streams() { return PartOfProcess<StreamTable>::Get(); }
inline SlotTable<EventInfo>& Events() { return PartOfProcess<SlotTable<EventInfo>>::Get(); }
inline CaptureTable& Captures() { return PartOfProcess<CaptureTable>::Get(); }

// A stream that the application passed: its id for the record, and what capture and local answers need.
struct UsedStream {
  HandleId id;
  StreamRef ref;
  StreamInfo info;
};
// CUDA_ERROR_INVALID_HANDLE for an unknown handle. For a special stream CUDA_ERROR_INVALID_CONTEXT when the calling thread has no
// context, CUDA_ERROR_CONTEXT_IS_DESTROYED when it is gone, and CUDA_ERROR_NOT_PERMITTED in a host function. Nothing else is
// checked.
CUresult FindStream(BasicCall& call, CUstream stream, UsedStream* used);
// Whether `stream` is that of the calling thread and the current context a green one, where threads have none (driver 580).
bool HasNoStreamOfTheThread(const BasicCall& call, CUstream stream);
}  // namespace tessera
