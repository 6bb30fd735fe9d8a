#include "client-stub/memory/host_pool_calls.h"

#include <algorithm>
#include <cstring>

#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_location.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

CUresult RefuseOnce(BasicCall& call, const char* reason) {
  if (FirstTime(reason)) LogInfo("{} is not supported: {}", call.info().name, reason);
  return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
}

// Of the pools that a host location has.
CUresult CheckLocation(BasicCall& call, const CUmemLocation& location, CUmemAllocationType type) {
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) return RefuseManagedPool(call);
  if (call.session().mirrored()) return RefuseWithoutPages(call);
  if (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && !IsNode(location.id))) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  return CUDA_SUCCESS;
}

}  // namespace

HostPools& Pools(BasicCall& call) { return call.session().memory().pools(); }

CUresult RefuseWithoutPages(BasicCall& call) {
  return RefuseOnce(call, "memory on the host that kernels use as they run needs a server on this host");
}

CUresult RefuseManagedPool(BasicCall& call) {
  return RefuseOnce(call, "there are no pools of managed memory: cuMemAllocManaged has no streams to order it");
}

CUresult CreateHostPool(BasicCall& call, CUmemoryPool* pool, const CUmemPoolProps& properties) {
  if (call.session().mirrored()) return RefuseWithoutPages(call);
  const CUmemLocation& location = properties.location;
  const bool on_node = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  // Memory that no node was named for is not for other processes (cuda.h, cuMemPoolCreate).
  const unsigned handles = on_node ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  const bool reserved =
      std::any_of(std::begin(properties.reserved), std::end(properties.reserved), [](unsigned char byte) { return byte != 0; });
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
      (on_node && !IsNode(location.id)) || (properties.handleTypes & ~handles) != 0 || reserved) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const HandleId id = call.Mint(HandleKind::kMemoryPool);
  if (!call.ok()) return call.result();
  const CUresult result = Pools(call).Create(call, id, location, properties.maxSize, properties.handleTypes != 0);
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(id.value());
  return result;
}

CUresult DestroyHostPool(BasicCall& call, HandleId pool) { return Pools(call).Destroy(call, pool); }

CUresult HostPoolOf(BasicCall& call, CUmemoryPool* pool, const CUmemLocation& location, CUmemAllocationType type, bool current) {
  if (const CUresult result = CheckLocation(call, location, type); result != CUDA_SUCCESS) return result;
  HandleId id;
  const CUresult result = Pools(call).OfLocation(call, location, current, &id);
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(id.value());
  return result;
}

CUresult SetHostPoolOf(BasicCall& call, const CUmemLocation& location, CUmemAllocationType type, HandleId pool) {
  if (const CUresult result = CheckLocation(call, location, type); result != CUDA_SUCCESS) return result;
  bool fits = false;
  Pools(call).With(pool, [&](HostPool& books) {
    fits = books.location().type == location.type && !books.imported() &&
           (location.type == CU_MEM_LOCATION_TYPE_HOST || books.location().id == location.id);
  });
  if (!fits) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Pools(call).SetCurrent(location, pool);
  return CUDA_SUCCESS;
}

CUresult SetHostPoolAttribute(BasicCall& call, HandleId pool, CUmemPool_attribute attribute, const void* value) {
  uint64_t amount = 0;
  if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) std::memcpy(&amount, value, sizeof(amount));
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  Pools(call).With(pool, [&](HostPool& books) {
    if (books.imported()) return;
    result = CUDA_SUCCESS;
    switch (attribute) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        std::memcpy(&books.reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES], value, sizeof(int));
        return;
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: books.threshold = amount; return;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (amount == 0) return books.ResetReservedHigh();
        break;
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (amount == 0) return books.ResetUsedHigh();
        break;
      default: break;
    }
    result = CUDA_ERROR_INVALID_VALUE;
  });
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

CUresult GetHostPoolAttribute(BasicCall& call, HandleId pool, CUmemPool_attribute attribute, void* value) {
  bool known = false;
  Pools(call).With(pool, [&](HostPool& books) {
    known = !books.imported();
    if (!known) return;
    const auto store = [value](uint64_t amount) { std::memcpy(value, &amount, sizeof(amount)); };
    switch (attribute) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return store(books.threshold);
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return store(books.reserved());
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return store(books.reserved_high());
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return store(books.used());
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return store(books.used_high());
      default: std::memcpy(value, &books.reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES], sizeof(int));
    }
  });
  return known ? CUDA_SUCCESS : call.Fail(CUDA_ERROR_INVALID_VALUE);
}

CUresult SetHostPoolAccess(BasicCall& call, HandleId pool, const CUmemAccessDesc* map, size_t count) {
  if (count == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = map[i].location;
    const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (!IsAccess(map[i].flags) || (!device && !IsNodeOrHost(location))) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    if (device && call.session().devices().NumberOf(location.id) < 0) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
    // The program itself has always access to all of it.
    const bool nothing = device && map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE && !nothing) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  Pools(call).With(pool, [&](HostPool& books) {
    for (size_t i = 0; i < count; ++i) {
      if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) books.access[map[i].location.id] = map[i].flags;
    }
  });
  return CUDA_SUCCESS;
}

CUresult GetHostPoolAccess(BasicCall& call, HandleId pool, const CUmemLocation& location, CUmemAccess_flags* flags) {
  CUmemAccess_flags answer = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    if (call.session().devices().NumberOf(location.id) < 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    Pools(call).With(pool, [&](HostPool& books) {
      const auto found = books.access.find(location.id);
      answer = found == books.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
    });
  } else if (!IsNodeOrHost(location)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  *flags = answer;
  return CUDA_SUCCESS;
}

CUresult AllocateFromHostPool(BasicCall& call, HandleId pool, size_t bytes, CUstream stream, CUdeviceptr* address) {
  bool capturing = false;
  if (const CUresult legal = CheckStreamUse(call, stream, &capturing); legal != CUDA_SUCCESS) return call.Fail(legal);
  if (capturing) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  UsedStream used;
  if (const CUresult found = FindStream(call, stream, &used); found != CUDA_SUCCESS) return call.Fail(found);
  return Pools(call).Allocate(call, pool, bytes, used, address);
}

CUresult FreeToHostPool(BasicCall& call, CUdeviceptr address, CUstream stream, bool capturing) {
  if (capturing) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  UsedStream used;
  if (const CUresult found = FindStream(call, stream, &used); found != CUDA_SUCCESS) return call.Fail(found);
  return Pools(call).Free(call, address, used);
}

CUresult ExportHostPool(BasicCall& call, void* handle, HandleId pool) {
  int fd = -1;
  bool shareable = false;
  Pools(call).With(pool, [&](HostPool& books) {
    shareable = books.shareable();
    if (shareable) fd = books.file().Duplicate();
  });
  if (!shareable) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (fd < 0) return call.Fail(CUDA_ERROR_OPERATING_SYSTEM);
  std::memcpy(handle, &fd, sizeof(fd));
  return CUDA_SUCCESS;
}

CUresult ImportHostPool(BasicCall& call, CUmemoryPool* pool, HostFile file) {
  if (call.session().mirrored()) return RefuseWithoutPages(call);
  const HandleId id = call.Mint(HandleKind::kMemoryPool);
  if (!call.ok()) return call.result();
  const CUresult result = Pools(call).Import(call, id, std::move(file));
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(id.value());
  return result;
}

}  // namespace tessera
