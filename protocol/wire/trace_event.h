// The times at which a worker ran a record and the GPU did its work. tesseraTraceRead and tesseraTraceWork carry them.
#pragma once

#include <cstdint>

namespace tessera {

// What a worker did for one record, or for the visit of a stream that the record asked for (client-stub/streams/stream_visit.h).
// Times are of the worker's CLOCK_MONOTONIC.
struct TraceEvent {
  uint64_t sequence = 0;  // of the record
  uint64_t begin_ns = 0;  // the worker takes the record up; for a visit: its stream has come to it
  uint64_t end_ns = 0;    // the record is with the driver, or with whatever waits for the GPU; for a visit: it is answered
  uint32_t call = 0;      // id of the call, or kTraceVisit: a visit that the record asked for
  uint32_t thread = 0;    // a thread of the worker
};
static_assert(sizeof(TraceEvent) == 32);
inline constexpr uint32_t kTraceVisit = 0;  // the id of no call

// One kernel or graph that ran on the GPU. Times are of the same clock; both are 0 if they were not measured.
struct TraceWork {
  uint64_t sequence = 0;  // of the record that launched it
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t name = 0;    // number of its name, in the order in which tesseraTraceWork lists the names
  uint32_t stream = 0;  // number of its stream, in the order of first use
};
static_assert(sizeof(TraceWork) == 32);

// The most events of one session, and of the calls of one process. Later ones are dropped.
inline constexpr uint64_t kTraceEventsMax = uint64_t{1} << 20;

}  // namespace tessera
