// What the handlers of copies share: which memory a copy touches, and what happens once it is done.
// Executor thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "protocol/memory/range_allocator.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/streams/written_range.h"

namespace tessera {

// Ends a call that enqueued GPU work on `stream` with `result`. If that succeeded, then once the work is done this publishes
// `written`, sends the notice of `mark` (0: none), and sends the reply, if the caller waits for one. If it failed, the notice and
// the end of the call come at once. `written`: the bytes of shared host memory or staging that the work writes, on a mirrored
// channel. `mark_reports`: whoever waits for the mark takes its result for that of the call, so a failure is not reported twice.
void FinishAfter(CallContext& call, CUstream stream, CUresult result, uint64_t mark, const WrittenRange& written = {},
                 bool mark_reports = false);

// Sets `extent` to the bytes from the first to the last that a box touches. The box starts at `base`; it has `width` bytes x
// `height` rows x `depth` slices. Rows are `pitch` bytes apart, and slices `pitch * slice_rows`. False: the box leaves the
// address space.
bool ExtentOf(uint64_t base, uint64_t pitch, uint64_t slice_rows, uint64_t width, uint64_t height, uint64_t depth, Range* extent);

// Returns where a write to `address` has to be published. All zeros if that is not shared host memory, or if the pages are
// shared.
WrittenRange WrittenAt(CallContext& call, uint64_t address, uint64_t bytes);

}  // namespace tessera
