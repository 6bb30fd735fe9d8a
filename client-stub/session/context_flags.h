// Flags of contexts (CUctx_flags): which are legal, and which the server has to know.
#pragma once

#include <cuda.h>

#include "client-stub/session/session_flags.h"

namespace tessera {

// How a thread waits natively. A forwarded program's threads wait in this library: NoteSchedule().
constexpr unsigned kScheduleFlags = CU_CTX_SCHED_MASK;

constexpr bool ContextFlagsAreLegal(unsigned flags) {
  const unsigned schedule = flags & kScheduleFlags;
  return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && (schedule & (schedule - 1)) == 0;
}

// Any thread.
inline void NoteSchedule(unsigned flags) {
  if ((flags & (CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC)) != 0) SessionFlags::Process().may_spin_long.store(false);
}

// What the server's context gets of them. Core dumps would be written by its process, on its host.
constexpr unsigned ServerContextFlags(unsigned flags) {
  return flags & (CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS);
}

}  // namespace tessera
