// Memory that limits of contexts set aside (cuCtxSetLimit), in the session's ledger: the heap of malloc() in kernels, the buffer
// of printf(), the stacks of all threads that a device can hold. What a limit was before the program set it belongs to the
// context.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "protocol/base/mutex.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

class LimitCharges {
 public:
  // Both outlive it.
  LimitCharges(const DriverTable& driver, MemoryLedger& ledger) : driver_(driver), ledger_(ledger) {}

  // The result of `set`, which gives `limit` of the current context, whose number is `context`, this value.
  // CUDA_ERROR_OUT_OF_MEMORY, and it was not called, where the session may not hold what that sets aside.
  CUresult Set(uint64_t context, CUdevice device, CUlimit limit, uint64_t value, const std::function<CUresult()>& set)
      EXCLUDES(mutex_);
  // The context has ended.
  void Forget(uint64_t context) EXCLUDES(mutex_);

 private:
  struct Charge {
    CUdevice device = 0;
    uint64_t base = 0;  // the value before
    uint64_t bytes = 0;
  };
  // Bytes for each unit of the limit; 0: it sets nothing aside.
  uint64_t BytesPerUnit(CUdevice device, CUlimit limit) const;

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  Mutex mutex_;
  std::map<std::pair<uint64_t, CUlimit>, Charge> charges_ GUARDED_BY(mutex_);  // by context
};

}  // namespace tessera
