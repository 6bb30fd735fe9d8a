// Visits: the library's own work at a point of a stream, on a thread of this process, while the stream waits. So memory
// that only this process has is read and written in stream order, when a stream reaches a copy and not when it is called.
//
//   VisitStream(call, stream, [=](const GoOn& go_on) { std::memcpy(shadow, source, bytes); go_on(); });
//
// The server asks for a visit as it does for a host function of the application (host_functions.h) when the stream is there;
// everything that follows in the stream, or waits for it, follows the visit too, but where it was let go on ahead. Visits run on
// a thread of their own, one after the other: they touch memory and nothing else, wait for nobody, and are held up by no host
// function of the application: for the driver they are none (server/worker/streams/stream_visits.h), except in graphs, where it
// may serialise the two kinds with each other.
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

// Enqueues a visit; what follows in the stream waits for all its visits but the `ahead` newest, of which this is one. They may
// be other copies', so a stream may wait for more than it needs, never for less. `written`: pinned memory that the stream wrote
// before and the visit reads (matters over a link only). The stream must not be captured. Calling thread only.
CUresult VisitStream(BasicCall& call, HandleId stream, Visit visit, const Range& written = {}, uint64_t ahead = kAwaitsAllVisits);
// The same without a visit.
CUresult AwaitVisits(BasicCall& call, HandleId stream, uint64_t ahead);

// A visit for a node of a graph, which may be asked for many times: its number. It ends when the server says that no graph
// has it any more, or with Drop().
uint64_t AddVisit(Session& session, Visit visit);

// The visits of the process. Any thread.
struct VisitCounts {
  static VisitCounts& Process() { return PartOfProcess<VisitCounts>::Get(); }

  std::atomic<bool> used{false};     // any was ever enqueued: streams may be about to use private memory of the application
  std::atomic<uint64_t> waiting{0};  // those that the server was told of and that have yet to end
};
inline bool VisitsUsed() { return VisitCounts::Process().used.load(std::memory_order_relaxed); }
inline uint64_t VisitsWaiting() { return VisitCounts::Process().waiting.load(std::memory_order_relaxed); }

}  // namespace tessera
