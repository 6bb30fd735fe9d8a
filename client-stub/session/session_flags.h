// Flags that all sessions of the process share. Any thread.
#pragma once

#include <atomic>

#include "client-stub/process/process_part.h"

namespace tessera {

struct SessionFlags {
  static SessionFlags& Process() { return PartOfProcess<SessionFlags>::Get(); }

  // The process has several sessions. Written when they are made (SeveralServers()).
  std::atomic<bool> several{false};
  // Waits for the GPU may spin as long as natively, where there are cores for it (AdaptiveSpin::LongNsMax), until a context asks
  // for something else (CU_CTX_SCHED_YIELD, CU_CTX_SCHED_BLOCKING_SYNC).
  std::atomic<bool> may_spin_long{true};
};

}  // namespace tessera
