// Counts the memory that limits of contexts set aside, in the session's ledger. This is the heap of malloc() in kernels, the
// buffer of printf(), and the local memory (with the stacks) of all threads that a device can hold. The value that a limit had
// when it was first read belongs to the context, and is not counted.
//
// A program sets limits by cuCtxSetLimit. Launches raise the limit of local memory, CU_LIMIT_STACK_SIZE, as well. A kernel that
// needs more gets it with its first launch. A graph gets it when it is instantiated, changed, or launched after the limit was
// lowered. The memory stays until the program sets the limit. So what is held is what the driver reports as the limit.
// Source: driver 580.159.04 on an H100, with and without CU_CTX_LMEM_RESIZE_TO_MAX. A green context has the limit of its primary
// one.
//
// Any thread. Functions that take a context find it current.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

class LimitCharges {
 public:
  // Both outlive it.
  LimitCharges(const DriverTable& driver, MemoryLedger& ledger) : driver_(driver), ledger_(ledger) {}

  // Returns the result of `set`, which sets `limit` of the current context, whose number is `context`, to `value`.
  // CUDA_ERROR_OUT_OF_MEMORY: the session may not hold what that sets aside, and `set` was not called.
  CUresult Set(uint64_t context, CUdevice device, CUlimit limit, uint64_t value, const std::function<CUresult()>& set)
      EXCLUDES(mutex_);
  // The context has ended: gives back what was counted for it. It need not be current.
  void Forget(uint64_t context) EXCLUDES(mutex_);

  // --- Local memory. `local_bytes`: the local memory of each thread of a kernel.

  // True: a launch in `context`, as a record names it, surely needs no more than the context has. No lock; the context need not
  // be current.
  bool Fits(HandleId context, uint64_t local_bytes) const {
    const uint64_t word = fits_[context.slot() % kFits].load(std::memory_order_relaxed);
    return word >> 32 == context.slot() && local_bytes <= (word & UINT32_MAX);
  }
  // Returns the bytes of each thread that belong to the context itself, whose number is `context`.
  uint64_t OwnBytes(uint64_t context, CUdevice device) EXCLUDES(mutex_);
  // A launch in the context begins: counts the memory that raising the limit for it may take. False: the session may not hold
  // that. Then do not launch, and do not call EndLaunch().
  bool BeginLaunch(uint64_t context, CUdevice device, uint64_t local_bytes) EXCLUDES(mutex_);
  // The launch has ended, with whatever result. `named`: the context as records name it.
  void EndLaunch(uint64_t context, HandleId named) EXCLUDES(mutex_);

 private:
  using Key = std::pair<uint64_t, CUlimit>;
  struct Charge {
    CUdevice device = 0;
    uint64_t unit = 0;   // bytes for each unit of the limit; 0: it sets nothing aside
    uint64_t base = 0;   // the limit when it was first read
    uint64_t bytes = 0;  // counted
    int changes = 0;     // under way
  };
  static constexpr size_t kFits = 16;

  uint64_t BytesPerUnit(CUdevice device, CUlimit limit) const;
  // Returns the limit of the current context; nothing where the driver does not report it.
  std::optional<uint64_t> Present(CUlimit limit) const;
  Charge& Find(const Key& key, CUdevice device) REQUIRES(mutex_);
  bool Begin(const Key& key, CUdevice device, uint64_t value) EXCLUDES(mutex_);
  // Ends a change: counts what the limit is by now, and returns it. Returns nothing if it is not known.
  std::optional<uint64_t> End(const Key& key) REQUIRES(mutex_);
  void ForgetFits() {
    for (std::atomic<uint64_t>& word : fits_) word.store(0, std::memory_order_relaxed);
  }

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  Mutex mutex_;
  std::map<Key, Charge> charges_ GUARDED_BY(mutex_);
  // By the slot of a context's handle, modulo kFits: slot << 32 | limit of local memory. Where slots of several contexts meet,
  // the word is that of the last one.
  std::array<std::atomic<uint64_t>, kFits> fits_{};
};

}  // namespace tessera
