// Memory of a GPU that a session holds as long as an object lives, counted in the session's ledger.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

// Gives memory back to the ledger when it is destroyed. Movable; one that was moved from holds nothing.
class HeldMemory {
 public:
  HeldMemory() = default;
  // Takes over `bytes` that the ledger has counted already. The ledger outlives this.
  HeldMemory(MemoryLedger& ledger, CUdevice device, MemoryKind kind, uint64_t bytes)
      : ledger_(&ledger), device_(device), kind_(kind), bytes_(bytes) {}
  HeldMemory(HeldMemory&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), device_(other.device_), kind_(other.kind_), bytes_(other.bytes_) {}
  HeldMemory& operator=(HeldMemory&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldMemory() {
    if (ledger_ != nullptr) ledger_->Give(device_, kind_, bytes_);
  }

  CUdevice device() const { return device_; }
  uint64_t bytes() const { return bytes_; }

 private:
  MemoryLedger* ledger_ = nullptr;
  CUdevice device_ = 0;
  MemoryKind kind_ = MemoryKind::kAllocations;
  uint64_t bytes_ = 0;
};

// What objects hold, by the number of their handle. Any thread.
class HeldObjects {
 public:
  // The object holds this. What it held before is held until the session ends: its handle names something else now.
  void Keep(uint64_t object, HeldMemory memory) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    LoseLocked(object);
    held_.insert_or_assign(object, std::move(memory));
  }
  // Gives back what the object held: the driver has its memory back.
  void Drop(uint64_t object) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    held_.erase(object);
  }
  // The object is not known by its handle any more, and was not freed: what it held is held until the session ends.
  void Lose(uint64_t object) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    LoseLocked(object);
  }

 private:
  void LoseLocked(uint64_t object) REQUIRES(mutex_) {
    const auto found = held_.find(object);
    if (found == held_.end()) return;
    lost_.push_back(std::move(found->second));
    held_.erase(found);
  }

  Mutex mutex_;
  std::map<uint64_t, HeldMemory> held_ GUARDED_BY(mutex_);
  std::vector<HeldMemory> lost_ GUARDED_BY(mutex_);
};

}  // namespace tessera
