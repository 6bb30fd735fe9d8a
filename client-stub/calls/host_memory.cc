// Pinned and registered host memory.

#include <cuda.h>

#include <atomic>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/shared_file.h"
#include "client-stub/process/process_maps.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/stream_visit.h"
#include "generated/client/host_memory.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr unsigned kAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

template <typename Request>
CUresult Allocate(Call& call, void** pp, size_t bytes, unsigned flags) {
  if (!call.ok()) return call.result();
  if (pp == nullptr || (flags & ~kAllocFlags) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (bytes == 0) {  // succeeds with a null pointer
    *pp = nullptr;
    return CUDA_SUCCESS;
  }
  HostMemory& memory = call.session().memory().host();
  HostMemory::Placed placed;
  const CUresult made = call.session().mirrored() ? memory.PlacePrivate(call.owner_context(), bytes, &placed)
                                                  : memory.Place(call.owner_context(), bytes, &placed);
  if (made != CUDA_SUCCESS) return call.Fail(made);
  if (placed.segment != 0) {
    Request request;
    request.segment = placed.segment;
    request.address = placed.segment_range.base;
    request.segment_bytes = placed.segment_range.bytes;
    if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) {
      memory.Abandon(placed);
      return result;
    }
  }
  // All pinned memory is mapped for the device, and the driver reports it so.
  memory.Commit(placed, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP, call.thread().current()->device, call.owner_context());
  *pp = reinterpret_cast<void*>(placed.block.base);
  return CUDA_SUCCESS;
}

// Where no pages are shared, what another process stores travels with the calls of this one (host_mirrors.h).
void WarnOfOtherWriters(Call& call, const Range& range) {
  if (!IsShared(range) || !FirstTime("other processes may write registered memory")) return;
  LogWarning(
      "{}: other processes may write this memory ({} bytes of a shared mapping), and the server does not see what they "
      "write before this program makes a call: a kernel that waits for it may wait for ever; use a server on this host, "
      "or have no kernel wait for another process",
      call.info().name, range.bytes);
}

// Gives registered memory an alias when it is a shared mapping of a file. What keeps the server from having it is no
// failure: then it is treated as private memory.
CUresult ShareFile(Call& call, HostMemory& memory, const Range& range) {
  if (call.session().mirrored()) {
    WarnOfOtherWriters(call, range);
    return CUDA_SUCCESS;
  }
  const auto file = FindSharedFile(range);
  HostMemory::Placed placed;
  if (!file || memory.PlaceFile(call.owner_context(), file->fd.get(), file->offset, file->pages.bytes, &placed) != CUDA_SUCCESS) {
    return CUDA_SUCCESS;
  }
  cuMemHostAllocRequest request;
  request.segment = placed.segment;
  request.address = placed.segment_range.base;
  request.segment_bytes = placed.segment_range.bytes;
  if (const CUresult result = call.SyncAs(request); result != CUDA_SUCCESS) {
    memory.Abandon(placed);
    if (call.session().gone()) return result;
    LogInfo("the server does not share a registered file ({} bytes): result {}; it is copied", range.bytes, int(result));
    return call.Fail(CUDA_SUCCESS);
  }
  memory.CommitUnseen(placed);
  memory.SetAlias(range.base, placed.block.base + (range.base - file->pages.base), placed.segment);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuMemAllocHost_v2(Call& call, void** pp, size_t bytesize) {
  return Allocate<cuMemAllocHost_v2Request>(call, pp, bytesize, 0);
}

CUresult Custom_cuMemHostAlloc(Call& call, void** pp, size_t bytesize, unsigned int Flags) {
  return Allocate<cuMemHostAllocRequest>(call, pp, bytesize, Flags);
}

CUresult Custom_cuMemFreeHost(Call& call, void* p) {
  if (SeveralServers()) call.RouteToAddress(reinterpret_cast<uint64_t>(p));
  if (!call.ok() || p == nullptr) return call.result();  // freeing nothing succeeds
  ClientMemory& all = call.session().memory();
  HostMemory& memory = all.host();
  const auto address = reinterpret_cast<uint64_t>(p);
  const auto block = memory.Find(address);
  cuMemFreeHostRequest request;
  if (const CUresult result = memory.BeginFree(address, &request.segment); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  cuMemFreeHostReply reply;
  const CUresult result = call.Sync(request, &reply);
  const bool idle = result == CUDA_SUCCESS && reply.idle;
  if (block) all.deliveries().Forget(block->range);
  if (idle) {
    all.mirrors().Close(call, address);
    call.Fail(CUDA_SUCCESS);
  }
  memory.EndFree(address, idle);
  return result;
}

CUresult Custom_cuMemHostGetDevicePointer_v2(Call& call, CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  if (!call.ok()) return call.result();
  if (pdptr == nullptr || p == nullptr || Flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ClientMemory& memory = call.session().memory();
  const uint64_t address = memory.Original(reinterpret_cast<uint64_t>(p));
  const auto block = memory.host().Find(address);
  if (!block) {
    bool whole = false;
    if (SeveralServers() && PinnedElsewhere(call.session(), reinterpret_cast<uint64_t>(p), 1, &whole) != 0) {
      LogInfo("kernels of {} do not reach memory that was pinned for another server: copies do", call.session().Name());
    }
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // A pool's memory has one address, and what no device has access to has none for them (measured: driver 580).
  if (!block->pool.is_null() || (block->mapped && !block->shared)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (block->shared) {
    const uint64_t alias = memory.host().AliasOf(address);
    *pdptr = alias != 0 ? alias : address;
    return CUDA_SUCCESS;
  }
  if (FirstTime("kernels use a mirror")) {
    LogInfo("kernels use a mirror of {} host memory, compared at every launch: {}", block->registered ? "registered" : "pinned",
            call.session().mirrored() ? "copies to device memory are faster" : "cuMemHostAlloc is faster");
  }
  return memory.mirrors().Open(call, *block, address, pdptr);
}

CUresult Custom_cuMemHostGetFlags(Call& call, unsigned int* pFlags, void* p) {
  if (SeveralServers()) call.RouteToAddress(reinterpret_cast<uint64_t>(p));
  if (!call.ok()) return call.result();
  if (pFlags == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto block = call.session().memory().host().Find(reinterpret_cast<uint64_t>(p));
  if (!block || !block->pool.is_null() || (block->mapped && !block->shared)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *pFlags = block->flags;
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemHostRegister_v2(Call& call, void* p, size_t bytesize, unsigned int Flags) {
  if (!call.ok()) return call.result();
  const auto address = reinterpret_cast<uint64_t>(p);
  if (address == 0 || bytesize == 0 || (Flags & ~kRegisterFlags) != 0 || bytesize > UINT64_MAX - address) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);  // no device to reach it
  ClientMemory& memory = call.session().memory();
  if (memory.Classify(address, bytesize) == Place::kDevice || memory.reservations().Contains(address) ||
      !IsAccessible(Range{address, bytesize}, (Flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (bool whole = false; SeveralServers() && PinnedElsewhere(call.session(), address, bytesize, &whole) != 0) {
    return call.Fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  }
  const CUresult result =
      memory.host().Register(Range{address, bytesize}, (Flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTALLOC_DEVICEMAP,
                             call.thread().current()->device, call.owner_context());
  if (result != CUDA_SUCCESS) return call.Fail(result);
  return ShareFile(call, memory.host(), Range{address, bytesize});
}

// Streams may still be about to visit the memory.
CUresult Custom_cuMemHostUnregister(Call& call, void* p) {
  if (SeveralServers()) call.RouteToAddress(reinterpret_cast<uint64_t>(p));
  if (!call.ok()) return call.result();
  if (p == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  HostMemory& memory = call.session().memory().host();
  const auto block = memory.Find(reinterpret_cast<uint64_t>(p));
  // As driver 580 answers: what is CUDA memory but begins no registration is a wrong value.
  if (!block && !call.session().memory().device().Find(reinterpret_cast<uint64_t>(p))) {
    return call.Fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  }
  if (!block || !block->registered || block->range.base != reinterpret_cast<uint64_t>(p)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  HostMirrors& mirrors = call.session().memory().mirrors();
  Deliveries& deliveries = call.session().memory().deliveries();
  if (VisitsUsed() || deliveries.used() || mirrors.any() || block->segment != 0) {
    // Waits for all work, and takes the alias of a shared file from the driver. That work failed is not this call's result:
    // it does nothing more.
    cuMemFreeHostRequest request;
    cuMemFreeHostReply reply;
    request.segment = block->segment;
    const CUresult result = call.SyncAs(request, &reply);
    if (result != CUDA_SUCCESS && call.session().gone()) return result;
    call.Fail(CUDA_SUCCESS);
    if (block->segment != 0) memory.EndFree(block->alias, result == CUDA_SUCCESS && reply.idle);
  }
  deliveries.Forget(block->range);
  mirrors.Close(call, block->range.base);
  call.Fail(CUDA_SUCCESS);
  const CUresult result = memory.Unregister(reinterpret_cast<uint64_t>(p));
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

}  // namespace tessera
