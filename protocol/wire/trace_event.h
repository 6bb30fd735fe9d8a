// When a worker ran a record: what tesseraTraceRead carries.
#pragma once

#include <cstdint>

namespace tessera {

// Times are of the worker's CLOCK_MONOTONIC.
struct TraceEvent {
  uint64_t sequence = 0;  // of the record
  uint64_t begin_ns = 0;  // taken up
  uint64_t end_ns = 0;    // handed to the driver, or to whoever waits for the GPU
  uint32_t call = 0;      // its id
  uint32_t thread = 0;    // of the worker
};
static_assert(sizeof(TraceEvent) == 32);

// Of one session, and of one process's calls; what comes later is not kept.
inline constexpr uint64_t kTraceEventsMax = uint64_t{1} << 20;

}  // namespace tessera
