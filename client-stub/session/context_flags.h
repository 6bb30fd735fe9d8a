// Flags of contexts (CUctx_flags): which are legal, and which the server gets.
#pragma once

#include <cuda.h>

#include "client-stub/session/session_flags.h"

namespace tessera {

// Flags that say how a thread waits natively. Here threads wait in this library: NoteSchedule().
constexpr unsigned kScheduleFlags = CU_CTX_SCHED_MASK;

constexpr bool ContextFlagsAreLegal(unsigned flags) {
  const unsigned schedule = flags & kScheduleFlags;
  return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && (schedule & (schedule - 1)) == 0;
}

// Any thread.
inline void NoteSchedule(unsigned flags) {
  if ((flags & (CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC)) != 0) SessionFlags::Process().may_spin_long.store(false);
}

// The flags for the server's context. Without those for core dumps, which its process would write on its host.
constexpr unsigned ServerContextFlags(unsigned flags) {
  return flags & (CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS);
}

}  // namespace tessera
