// When a worker ran a record: what tesseraTraceRead carries.
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

// Of one session, and of one process's calls; what comes later is not kept.
inline constexpr uint64_t kTraceEventsMax = uint64_t{1} << 20;

}  // namespace tessera
