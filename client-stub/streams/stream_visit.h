// A visit is the library's own work at a point of a stream, on a thread of this process, while the stream waits. So memory that
// only this process has is read and written when the stream reaches a copy, not when the copy is called.
//
//   VisitStream(call, stream, [=](const GoOn& go_on) { std::memcpy(shadow, source, bytes); go_on(); });
//
// When the stream is there the server asks for the visit, as for a host function of the application (host_functions.h). What
// follows in the stream, or waits for it, comes after the visit, unless it was let go ahead. Visits run on a thread of their own,
// one after the other. They only touch memory, and wait for nobody. No host function of the application holds them up, since for
// the driver they are no host functions (server/worker/streams/stream_visits.h). In graphs they are, and the driver may serialise
// them with those.
#pragma once

#include <atomic>
#include <cstdint>

#include "client-stub/process/process_part.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/streams/host_functions.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// How many of its newest visits a stream does not wait for, so that they are asked for while it goes on.
inline constexpr uint64_t kAwaitsAllVisits = 0;
inline constexpr uint64_t kAwaitsNoVisit = ~uint64_t{0};

// Enqueues a visit. What follows in the stream waits for all its visits except the `ahead` newest, this one included. Visits of
// other copies count too, so a stream may wait for more than it needs, but never for less. `written`: pinned memory that the
// stream wrote before and the visit reads (matters over a link only). The stream must not be captured. Calling thread only.
CUresult VisitStream(BasicCall& call, HandleId stream, Visit visit, const Range& written = {}, uint64_t ahead = kAwaitsAllVisits);
// Makes the stream wait in the same way, without a visit of its own.
CUresult AwaitVisits(BasicCall& call, HandleId stream, uint64_t ahead);

// A visit for a node of a graph, which may be asked for many times: its number. It ends when the server says that no graph
// has it any more, or with Drop().
uint64_t AddVisit(Session& session, Visit visit);

// The visits of the process. Any thread.
struct VisitCounts {
  static VisitCounts& Process() { return PartOfProcess<VisitCounts>::Get(); }

  std::atomic<bool> used{false};     // any was ever enqueued, so streams may use private memory of the application
  std::atomic<uint64_t> waiting{0};  // visits that the server knows and that have not ended
};
inline bool VisitsUsed() { return VisitCounts::Process().used.load(std::memory_order_relaxed); }
inline uint64_t VisitsWaiting() { return VisitCounts::Process().waiting.load(std::memory_order_relaxed); }

}  // namespace tessera
