// What the handlers of copies share: which memory a copy may touch, and what happens once it is done.
// Executor thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "protocol/memory/range_allocator.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/streams/written_range.h"

namespace tessera {

// Ends a call that enqueued GPU work on `stream` with `result`. When that succeeded and somebody waits, then once the work
// is done: the call's reply, the notice of `mark` (0: none), and on a mirrored channel `written`, the bytes of staging that
// the work wrote, published before both.
// `mark_reports`: whoever waits for the mark takes its result for that of the call, so a failure is not reported twice.
void FinishAfter(CallContext& call, CUstream stream, CUresult result, uint64_t mark, const WrittenRange& written = {},
                 bool mark_reports = false);

// The bytes from the first to the last that a box of `width` x `height` x `depth` touches, whose rows are `pitch` and whose
// slices `pitch * slice_rows` bytes apart, starting at `base`. False when that leaves the address space.
bool ExtentOf(uint64_t base, uint64_t pitch, uint64_t slice_rows, uint64_t width, uint64_t height, uint64_t depth, Range* extent);

// Where a write to `address` has to be published; all zeros when it is not shared host memory or pages are shared.
WrittenRange WrittenAt(CallContext& call, uint64_t address, uint64_t bytes);

}  // namespace tessera
