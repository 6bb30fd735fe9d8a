// Every range of addresses the emulated devices know: device memory, pinned host memory, mapped virtual memory, module
// variables. Addresses are real addresses of this process, so a device pointer is also what the copy loops use.
//
// New device memory is filled with 0xCD (the first 256 MiB of it), so a program that reads before writing shows. Freed
// memory is made inaccessible and its addresses rest in a queue before they are used again.
// Any thread; one reader-writer lock guards the table.
// Source: CUDA driver API, "Unified Addressing".
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/device/named_memory.h"

namespace tessera::emulator {

inline constexpr uint64_t kPageBytes = 4096;
// What fresh memory has, where a program may find anything.
inline constexpr int kPoisonByte = 0xCD;

inline uint64_t RoundUp(uint64_t value, uint64_t granule) { return (value + granule - 1) / granule * granule; }

enum class MemoryKind {
  kDevice,      // cuMemAlloc
  kGlobal,      // a module's variable
  kManaged,     // a managed variable, of all contexts
  kPool,        // cuMemAllocAsync
  kGraph,       // an allocation node of a graph
  kMapped,      // cuMemMap
  kHost,        // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
};

struct Allocation {
  uint64_t base = 0;
  uint64_t size_bytes = 0;    // as asked for
  uint64_t mapped_bytes = 0;  // whole pages that are ours to unmap, 0 for registered memory
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  uint64_t context = 0;  // handle of the owning context, 0 for memory no context owns
  uint64_t buffer_id = 0;
  unsigned host_flags = 0;
  uint64_t owner = 0;  // handle of the pool, or of the physical memory
  bool sync_memops = false;
  // Set once while the table is locked for writing.
  uint32_t read_mask = 0;  // devices that may read it, by number; kDevice and kGlobal follow context access instead
  uint32_t write_mask = 0;
  std::shared_ptr<NamedMemory> backing;  // memory of a pool for several processes; else null
  bool absent = false;                   // of kGraph: nothing lies there at the moment, an access faults
  bool free_pending = false;             // freed in stream order, not yet reached

  uint64_t end() const { return base + size_bytes; }
  bool is_host() const { return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered; }
};
using AllocationPtr = std::shared_ptr<Allocation>;

class MemoryTable {
 public:
  // `changed` is called, with no lock held, after a range was withdrawn or its access changed.
  explicit MemoryTable(std::function<void()> changed) : changed_(std::move(changed)) {}
  // Pages for `size_bytes`, poisoned when `poison`, else zero. 0 when the system has no more.
  static uint64_t MapPages(uint64_t size_bytes, bool poison);
  // The same in the low part of the address space, where the real driver (580) has graph memory and managed variables, and the
  // emulated one whatever a client must take where it is: programs map little there. Anywhere when that is taken.
  uint64_t MapLowPages(uint64_t size_bytes, bool poison);
  // Makes pages inaccessible; their addresses are reused only after many other frees.
  void RetirePages(uint64_t base, uint64_t mapped_bytes);
  // Writes kPoisonByte where a program will see it: in the first MiB, in one of 16 pages up to 256 MiB, and in the last page. Not
  // everywhere: workers take memory in large pieces of which most programs use little, and tests spent half their time with it.
  static void Poison(void* base, uint64_t size_bytes);

  void Insert(const AllocationPtr& allocation);
  // Takes the allocation that starts at `base` out; null when there is none.
  AllocationPtr Remove(uint64_t base);
  std::vector<AllocationPtr> RemoveIf(const std::function<bool(const Allocation&)>& test);
  // The allocation that contains `address`; null when there is none.
  AllocationPtr Find(uint64_t address) const;
  // True when [address, address + size) lies inside allocations of this table without a gap; the first is stored.
  bool Covers(uint64_t address, uint64_t size_bytes, AllocationPtr* first) const;
  // The same for an access that happens now: memory of a graph must be there.
  bool Usable(uint64_t address, uint64_t size_bytes) const;
  // True when the range touches any allocation.
  bool Overlaps(uint64_t address, uint64_t size_bytes) const;
  // Changes the allocation at `base` under the lock; false when there is none.
  bool Update(uint64_t base, const std::function<void(Allocation&)>& change);
  void UpdateAll(const std::function<void(Allocation&)>& change);
  // Copies the fields that change, consistently.
  Allocation Snapshot(const AllocationPtr& allocation) const;

 private:
  AllocationPtr FindLocked(uint64_t address) const;

  const std::function<void()> changed_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, AllocationPtr> allocations_;
  uint64_t next_buffer_id_ = 1;
  std::mutex low_mutex_;
  uint64_t next_low_ = 0;  // where low pages are tried next; guarded by low_mutex_; 0: none were asked for yet
  std::mutex retired_mutex_;
  std::deque<std::pair<uint64_t, uint64_t>> retired_;
};

}  // namespace tessera::emulator
