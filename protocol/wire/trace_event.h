// When a worker ran a record, and when the GPU did its work: what tesseraTraceRead and tesseraTraceWork carry.
#pragma once

#include <cstdint>

namespace tessera {

// Times are of the worker's CLOCK_MONOTONIC.
struct TraceEvent {
  uint64_t sequence = 0;  // of the record
  uint64_t begin_ns = 0;  // taken up; of a visit: its stream has come to it
  uint64_t end_ns = 0;    // handed to the driver, or to whoever waits for the GPU; of a visit: it is answered
  uint32_t call = 0;      // its id, or kTraceVisit: the visit that the record asked for
  uint32_t thread = 0;    // of the worker
};
static_assert(sizeof(TraceEvent) == 32);
inline constexpr uint32_t kTraceVisit = 0;  // the id of no call

// A kernel or a graph that the GPU was given. Times are as above; both are 0 where nobody has measured them.
struct TraceWork {
  uint64_t sequence = 0;  // of the record that launched it
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t name = 0;    // number of its name, in the order in which tesseraTraceWork tells them
  uint32_t stream = 0;  // number of its stream, in the order of their first use
};
static_assert(sizeof(TraceWork) == 32);

// Of one session, and of one process's calls; what comes later is not kept.
inline constexpr uint64_t kTraceEventsMax = uint64_t{1} << 20;

}  // namespace tessera
