// Physical memory on the host (cuMemCreate with a host location) of one session, and its mappings in reserved addresses
// (cuMemMap). For channels whose two sides share pages. The memory is a memory file of this process (host_file.h). For the
// program a mapping is an ordinary mapping of that file, protected as cuMemSetAccess says. When the first device gets access the
// server maps the file at the same addresses, and its driver registers it there (server/worker/memory/host_mappings.h).
//
//   HostAllocations& allocations = call.session().memory().allocations();
//   if (allocations.Has(id)) return allocations.Map(call, range, id);     // else it is the server's
//
// HostMemory shows the mappings, for copies and questions about addresses. Mappings belong to no context. Known limits: once a
// device had access, all devices reach a mapping until it is unmapped; and a kernel can write where its device may only read.
// Rules and codes were measured on driver 580 (H200). Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client-stub/memory/host_file.h"
#include "client-stub/memory/host_memory.h"
#include "client-stub/session/basic_call.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"

namespace tessera {

class HostAllocations {
 public:
  explicit HostAllocations(HostMemory& memory) : memory_(memory) {}

  bool Has(HandleId id) const EXCLUDES(mutex_);
  // Whether any of this memory is mapped in the range.
  bool AnyIn(const Range& range) const EXCLUDES(mutex_);
  // Whether `address` lies in a mapping. Synchronous copies and sets have written there when they return, even if the program has
  // no access yet: it may get access before it looks.
  bool Contains(uint64_t address) const { return MappingAt(address).bytes != 0; }
  // The mapping that contains `address`; an empty range: none does.
  Range MappingAt(uint64_t address) const EXCLUDES(mutex_);

  // The program's access to the mapping at `address`; nullopt: there is none.
  std::optional<CUmemAccess_flags> ProgramAccess(uint64_t address) const EXCLUDES(mutex_);

  // Makes an allocation for `id`, which the call minted, as cuMemCreate. `node`: the NUMA node.
  CUresult Create(BasicCall& call, HandleId id, uint64_t bytes, int node, bool shareable) EXCLUDES(mutex_);
  // Enters the allocation whose file this is, of another process or of this one. It is not exported again.
  void Import(HandleId id, HostFile file) EXCLUDES(mutex_);
  // Gives one reference back. The last one ends the handle, and also the memory if none of it is mapped.
  CUresult Release(BasicCall& call, HandleId id) EXCLUDES(mutex_);
  // Adds a reference to the allocation that is mapped at `address`. `id` becomes its handle, or a new one if that was released.
  CUresult Retain(BasicCall& call, uint64_t address, HandleId* id) EXCLUDES(mutex_);
  CUresult Properties(BasicCall& call, HandleId id, CUmemAllocationProp* properties) EXCLUDES(mutex_);
  // A descriptor of it, as cuMemExportToShareableHandle.
  CUresult Export(BasicCall& call, HandleId id, int* fd) EXCLUDES(mutex_);

  // Maps all of it at a range that is reserved and free.
  CUresult Map(BasicCall& call, const Range& range, HandleId id) EXCLUDES(changes_, mutex_);
  // Unmaps what is mapped in the range. Waits for the session's work if a device has had access (natively it does not).
  // CUDA_ERROR_INVALID_VALUE when the range has a part of a mapping.
  CUresult Unmap(BasicCall& call, const Range& range) EXCLUDES(changes_, mutex_);
  // As cuMemSetAccess, for a range with nothing else in it. CUDA_ERROR_INVALID_VALUE, and nothing has changed: the range does not
  // consist of whole mappings without a gap, or there is no such access.
  CUresult SetAccess(BasicCall& call, const Range& range, std::span<const CUmemAccessDesc> accesses) EXCLUDES(changes_, mutex_);
  // As cuMemGetAccess of an address that is mapped.
  CUresult Access(BasicCall& call, uint64_t address, const CUmemLocation& location, unsigned long long* flags) EXCLUDES(mutex_);

 private:
  struct Allocation {
    HostFile file;
    bool shareable = false;
    bool imported = false;
  };
  struct Handle {
    std::shared_ptr<Allocation> allocation;
    uint64_t references = 1;
  };
  struct Mapping {
    Range range;
    HandleId handle;  // it may be released by now
    std::shared_ptr<Allocation> allocation;
    CUmemAccess_flags host = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    std::map<CUdevice, CUmemAccess_flags> devices;  // devices that were given or denied access
    bool attached = false;                          // the server has it
  };
  using Mappings = std::map<uint64_t, Mapping>;  // by base

  // The one that contains `address`, or null.
  const Mapping* FindLocked(uint64_t address) const REQUIRES(mutex_);

  // The mappings that make up exactly the range; empty when they do not.
  std::vector<Mapping> MappingsOf(const Range& range) const EXCLUDES(mutex_);
  // Makes the server map it.
  static CUresult Attach(BasicCall& call, const Mapping& mapping);
  // Enters a mapping, or its changes.
  void Show(const Mapping& mapping) EXCLUDES(mutex_);

  HostMemory& memory_;
  // One thread at a time changes mappings, and waits for the server meanwhile. Taken before mutex_.
  Mutex changes_;
  mutable Mutex mutex_;
  std::map<uint64_t, Handle> handles_ GUARDED_BY(mutex_);
  Mappings mappings_ GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};
};

}  // namespace tessera
