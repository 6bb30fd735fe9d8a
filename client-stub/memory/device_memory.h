// The device memory that this process holds, by address. It answers pointer questions, and copies and sets are checked against it
// before they are sent. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"

namespace tessera {

struct DeviceAllocation {
  enum class Kind : uint8_t {
    kBlock,    // cuMemAlloc
    kPool,     // stream-ordered, from the pool `pool`
    kMapped,   // cuMemMap: one mapping
    kGlobal,   // a variable of a module
    kGraph,    // an allocation node
    kForeign,  // cuIpcOpenMemHandle: a block of another process
    kManaged,  // cuMemAllocManaged, or a managed variable
  };
  Range range;
  Kind kind = Kind::kBlock;
  CUdevice device = 0;
  HandleId context;           // kBlock, kGlobal, kForeign and kManaged: the owner; else null
  HandleId pool;              // kPool
  HandleId container;         // of a variable: its module or library
  uint32_t handle_types = 0;  // kMapped: CUmemAllocationHandleType bits it was made with
  HandleId physical;          // kMapped: the handle of the mapped allocation, which may be released by now
  uint64_t buffer_id = 0;     // CU_POINTER_ATTRIBUTE_BUFFER_ID; set by Add
  bool sync_memops = true;    // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as set (measured: 1 until it is cleared)
};

class DeviceMemory {
 public:
  // Enters an allocation. The same one again (a module's variable, asked for twice) changes nothing. Other allocations that it
  // overlaps are removed, since the server has reused their addresses. A part of a known variable is not entered.
  void Add(DeviceAllocation allocation);
  // Removes the allocation that starts at `base`. False when there is none.
  bool Remove(uint64_t base);
  // Removes the allocation and returns it.
  std::optional<DeviceAllocation> Take(uint64_t base);
  // Removes what belongs to a context that has ended.
  void RemoveContext(HandleId context);
  // Removes the variables of a module or library that was unloaded.
  void RemoveContainer(HandleId container);

  // The allocation that contains `address`.
  std::optional<DeviceAllocation> Find(uint64_t address) const;
  // The allocation that contains `address`, or else the last one below it.
  std::optional<DeviceAllocation> FindNearest(uint64_t address) const;
  // Whether all of [address, address + bytes) may be used, in one allocation or in mappings that follow each other.
  bool Covers(uint64_t address, uint64_t bytes) const;
  // Whether an allocation overlaps the range.
  bool AnyIn(const Range& range) const;
  // Removes the mappings that begin in the range.
  void RemoveMappings(const Range& range);
  bool SetSyncMemops(uint64_t address, bool value);
  // Gives mappings of `physical`, which was released, the handle `by`.
  void ReplacePhysical(HandleId physical, HandleId by);

  // Numbers for CU_POINTER_ATTRIBUTE_BUFFER_ID: unique over the process.
  static uint64_t NextBufferId();

 private:
  using Allocations = std::map<uint64_t, DeviceAllocation>;
  Allocations::const_iterator FindLocked(uint64_t address) const;

  mutable std::shared_mutex mutex_;
  Allocations allocations_;  // by base; guarded by mutex_
};

}  // namespace tessera
