// Memory that limits of contexts set aside, in the session's ledger: the heap of malloc() in kernels, the buffer of printf(), and
// the local memory, stacks among it, of all threads that a device can hold. What a limit was when it was first looked at belongs
// to the context.
//
// A program sets limits (cuCtxSetLimit). That of local memory, CU_LIMIT_STACK_SIZE, is raised by launches as well: a kernel that
// needs more gets it with its first launch, and a graph when it is instantiated, changed, or launched after the limit was
// lowered. It stays until the program sets the limit. So what is held is what the driver says that the limit is.
// Source: driver 580.159.04 on an H100, with and without CU_CTX_LMEM_RESIZE_TO_MAX. A green context has its primary one's.
//
// Any thread. What has to do with a context finds it current.
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

  // The result of `set`, which gives `limit` of the current context, whose number is `context`, this value.
  // CUDA_ERROR_OUT_OF_MEMORY, and it was not called, where the session may not hold what that sets aside.
  CUresult Set(uint64_t context, CUdevice device, CUlimit limit, uint64_t value, const std::function<CUresult()>& set)
      EXCLUDES(mutex_);
  // The context has ended.
  void Forget(uint64_t context) EXCLUDES(mutex_);

  // --- Local memory. `local_bytes` are those of each thread of a kernel.

  // Whether a launch in the context, as a record names it, surely needs no more than the context has. No lock.
  bool Fits(HandleId context, uint64_t local_bytes) const {
    const uint64_t word = fits_[context.slot() % kFits].load(std::memory_order_relaxed);
    return word >> 32 == context.slot() && local_bytes <= (word & UINT32_MAX);
  }
  // The part of each thread that belongs to the context, whose number is `context`.
  uint64_t OwnBytes(uint64_t context, CUdevice device) EXCLUDES(mutex_);
  // A launch in the context begins: counts what it may raise the limit by. False where the session may not hold that; there is
  // no such launch then.
  bool BeginLaunch(uint64_t context, CUdevice device, uint64_t local_bytes) EXCLUDES(mutex_);
  // It has ended, with whatever result. `named`: the context as records name it.
  void EndLaunch(uint64_t context, HandleId named) EXCLUDES(mutex_);

 private:
  using Key = std::pair<uint64_t, CUlimit>;
  struct Charge {
    CUdevice device = 0;
    uint64_t unit = 0;   // bytes for each one of the limit; 0: it sets nothing aside
    uint64_t base = 0;   // the limit when it was first looked at
    uint64_t bytes = 0;  // counted
    int changes = 0;     // that have begun and have not ended
  };
  static constexpr size_t kFits = 16;

  uint64_t BytesPerUnit(CUdevice device, CUlimit limit) const;
  // Of the current context; nothing where the driver does not tell.
  std::optional<uint64_t> Present(CUlimit limit) const;
  Charge& Find(const Key& key, CUdevice device) REQUIRES(mutex_);
  bool Begin(const Key& key, CUdevice device, uint64_t value) EXCLUDES(mutex_);
  // Counts what the limit is by now.
  std::optional<uint64_t> End(const Key& key) REQUIRES(mutex_);
  void ForgetFits() {
    for (std::atomic<uint64_t>& word : fits_) word.store(0, std::memory_order_relaxed);
  }

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  Mutex mutex_;
  std::map<Key, Charge> charges_ GUARDED_BY(mutex_);
  // By the slot of a context's handle: the slot << 32 | the limit of local memory. Of contexts whose slots meet the last one's.
  std::array<std::atomic<uint64_t>, kFits> fits_{};
};

}  // namespace tessera
