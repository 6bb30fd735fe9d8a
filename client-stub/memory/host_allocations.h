// Physical memory on the host (cuMemCreate with a host location) of one session, on a channel whose two sides share pages, and
// where it is mapped in reserved addresses (cuMemMap). It is a memory file of this process' (host_file.h). The program's side of
// a mapping is an ordinary mapping of that file, protected as cuMemSetAccess says. For the devices the server maps the file at
// the same addresses, when a first device gets access, and its driver registers it there (server/worker/memory/host_mappings.h).
//
//   HostAllocations& allocations = call.session().memory().allocations();
//   if (allocations.Has(id)) return allocations.Map(call, range, id);     // else it is the server's
//
// What is mapped is shown in HostMemory, for copies and questions about addresses. Mappings belong to no context. Known limits:
// devices keep their reach of a mapping until it is unmapped, whatever access they are given after the first, and a kernel may
// write what its device may only read. Rules and codes were measured on driver 580 (H200). Any thread.
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
  // Whether something of this is mapped anywhere in the range.
  bool AnyIn(const Range& range) const EXCLUDES(mutex_);
  // Whether `address` lies in a mapping. What synchronous copies and sets write there is written when they return, also where the
  // program has no access yet: it may be given some before it looks.
  bool Contains(uint64_t address) const { return MappingAt(address).bytes != 0; }
  // The mapping that contains `address`; an empty range: none does.
  Range MappingAt(uint64_t address) const EXCLUDES(mutex_);

  // What the program may do with what is mapped at `address`; nothing where nothing is.
  std::optional<CUmemAccess_flags> ProgramAccess(uint64_t address) const EXCLUDES(mutex_);

  // An allocation for `id`, which the call minted, as cuMemCreate. `node`: of NUMA.
  CUresult Create(BasicCall& call, HandleId id, uint64_t bytes, int node, bool shareable) EXCLUDES(mutex_);
  // Another process' allocation, or one of this, whose file this is. It is not exported again.
  void Import(HandleId id, HostFile file) EXCLUDES(mutex_);
  // Gives one reference back; the last one ends the handle, and the memory when nothing is mapped of it.
  CUresult Release(BasicCall& call, HandleId id) EXCLUDES(mutex_);
  // One reference more for what is mapped at `address`, which is there. The same handle, or a new one when it was released.
  CUresult Retain(BasicCall& call, uint64_t address, HandleId* id) EXCLUDES(mutex_);
  CUresult Properties(BasicCall& call, HandleId id, CUmemAllocationProp* properties) EXCLUDES(mutex_);
  // A descriptor of it, as cuMemExportToShareableHandle.
  CUresult Export(BasicCall& call, HandleId id, int* fd) EXCLUDES(mutex_);

  // Maps all of it at a range that is reserved and free.
  CUresult Map(BasicCall& call, const Range& range, HandleId id) EXCLUDES(changes_, mutex_);
  // Unmaps what is mapped in the range. Waits for the session's work where a device has had access (natively it does not).
  // CUDA_ERROR_INVALID_VALUE when the range has a part of a mapping.
  CUresult Unmap(BasicCall& call, const Range& range) EXCLUDES(changes_, mutex_);
  // As cuMemSetAccess, of a range in which only this is mapped. CUDA_ERROR_INVALID_VALUE when it is not all of some mappings that
  // follow each other, and for an access that there is not: nothing has changed then.
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
    HandleId handle;  // which may have been released since
    std::shared_ptr<Allocation> allocation;
    CUmemAccess_flags host = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    std::map<CUdevice, CUmemAccess_flags> devices;  // that were given or denied access
    bool attached = false;                          // the server has it
  };
  using Mappings = std::map<uint64_t, Mapping>;  // by base

  // The one that contains `address`, or null.
  const Mapping* FindLocked(uint64_t address) const REQUIRES(mutex_);

  // The mappings that make up exactly the range; empty when they do not.
  std::vector<Mapping> MappingsOf(const Range& range) const EXCLUDES(mutex_);
  // Has the server map it.
  static CUresult Attach(BasicCall& call, const Mapping& mapping);
  // Enters a mapping, or what has changed of it.
  void Show(const Mapping& mapping) EXCLUDES(mutex_);

  HostMemory& memory_;
  // One thread at a time changes what is mapped: it waits for the server meanwhile. Taken before mutex_.
  Mutex changes_;
  mutable Mutex mutex_;
  std::map<uint64_t, Handle> handles_ GUARDED_BY(mutex_);
  Mappings mappings_ GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};
};

}  // namespace tessera
