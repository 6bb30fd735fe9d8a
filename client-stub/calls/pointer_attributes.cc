// What an address is: answered from the client's own maps. Answers for each kind of memory were measured on driver 580
// (H200); those that promise what a forwarded program does not have (GPUDirect RDMA, handles for other hosts) say no.

#include <cuda.h>

#include <cstring>
#include <optional>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"
#include "generated/client/memory.h"
#include "generated/client/pool.h"

namespace tessera {
namespace {

struct Known {
  std::optional<DeviceAllocation> device;
  std::optional<HostBlock> host;
  CUdeviceptr address = 0;           // where it lies for the application
  CUdeviceptr mirror = 0;            // of registered memory whose device pointer was asked for
  std::optional<Range> reservation;  // around a mapping
  bool any() const { return device.has_value() || host.has_value(); }
};

Known Look(Call& call, CUdeviceptr ptr) {
  ClientMemory& memory = call.session().memory();
  ptr = memory.Original(ptr);
  Known known;
  known.address = ptr;
  known.mirror = memory.host().AliasOf(ptr);
  if (const auto mirrored = memory.mirrors().DeviceAddress(ptr)) known.mirror = *mirrored;
  known.device = memory.device().Find(ptr);
  if (!known.device) known.host = memory.host().Find(ptr);
  const bool mapped = known.device ? known.device->kind == DeviceAllocation::Kind::kMapped : known.host && known.host->mapped;
  if (mapped) known.reservation = memory.reservations().Find(ptr);
  if (known.any()) return known;
  if (const auto untold = UntoldMemory(call, ptr)) {
    known.device.emplace();
    known.device->range = *untold;
    known.device->kind = DeviceAllocation::Kind::kGlobal;
    if (const Context* context = call.current_context()) known.device->device = context->device;
  }
  return known;
}

template <typename T>
void Store(void* data, T value) {
  std::memcpy(data, &value, sizeof(T));
}

constexpr uint64_t kMappingBytes = uint64_t{2} << 20;  // device memory is mapped in multiples of this
constexpr uint64_t kPage = 4096;

CUmemoryPool PoolOf(const DeviceAllocation& allocation) {
  if (allocation.kind != DeviceAllocation::Kind::kPool) return nullptr;
  if (!allocation.pool.is_null()) return reinterpret_cast<CUmemoryPool>(allocation.pool.value());
  CUmemoryPool pool = nullptr;  // cuMemAllocAsync: the device's current pool
  return Enter_cuDeviceGetMemPool(false, &pool, allocation.device) == CUDA_SUCCESS ? pool : nullptr;
}

// Of memory that is known. CUDA_ERROR_INVALID_VALUE for an attribute that it does not have.
CUresult Answer(const Known& known, CUpointer_attribute attribute, CUdeviceptr ptr, void* data) {
  const bool device = known.device.has_value();
  const Range range = device ? known.device->range : known.host->range;
  const bool managed = device && known.device->kind == DeviceAllocation::Kind::kManaged;
  const uint64_t unit = device ? kMappingBytes : kPage;
  const bool mapped = !device && known.host->mapped;
  const bool pooled = !device && known.host->mapping.bytes != 0;
  const uint64_t mapping_base = pooled ? known.host->mapping.base : range.base & ~(unit - 1);
  const uint64_t mapping_end = pooled ? known.host->mapping.end() : (range.end() + unit - 1) & ~(unit - 1);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      Store(data, device ? known.device->context.value() : known.host->context.value());
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      Store(data, uint32_t{device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      // Registered memory has no address that a kernel could use before cuMemHostGetDevicePointer (host_mirrors.h).
      if (!device && known.host->registered) {
        Store(data, uint64_t{known.mirror});
        return known.mirror != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      }
      if (mapped && !known.host->shared) return Store(data, uint64_t{0}), CUDA_ERROR_INVALID_VALUE;
      Store(data, uint64_t{ptr});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if ((device && !managed) || (mapped && known.host->host_access == CU_MEM_ACCESS_FLAGS_PROT_NONE)) {
        return Store(data, uint64_t{0}), CUDA_ERROR_INVALID_VALUE;
      }
      Store(data, uint64_t{known.address});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:  // of managed memory zeros, of other device memory nothing (measured)
      if (!device) return CUDA_ERROR_INVALID_VALUE;
      if (managed) Store(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      Store(data, uint32_t{device ? known.device->sync_memops : known.host->sync_memops});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      Store(data, device ? known.device->buffer_id : known.host->buffer_id);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      Store(data, uint32_t{device && known.device->kind == DeviceAllocation::Kind::kBlock});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: Store(data, uint32_t{managed}); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: Store(data, uint32_t{0}); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Store(data, int32_t{device ? known.device->device : known.host->device});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:  // of a pool on the host: where in its memory (measured, as what a mapping
                                                 // answers)
      Store(data, pooled ? range.base - mapping_base : known.reservation ? known.reservation->base : range.base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      Store(data, known.reservation ? known.reservation->bytes : range.bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      Store(data, uint32_t{device || !known.host->registered || known.mirror != 0});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      Store(data, uint64_t{device ? known.device->handle_types : known.host->handle_types});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      Store(data, uint32_t{mapped ? uint32_t{known.host->device_access} : uint32_t{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE}});
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      Store(data, device ? PoolOf(*known.device) : reinterpret_cast<CUmemoryPool>(known.host->pool.value()));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: Store(data, mapping_end - mapping_base); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: Store(data, mapping_base); return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// Of an address that is no CUDA memory, as cuPointerGetAttributes answers: nulls, and a device that does not exist.
void AnswerUnknown(CUpointer_attribute attribute, CUdeviceptr ptr, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return Store(data, uint64_t{ptr});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return Store(data, int32_t{-2});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return;  // left untouched
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return Store(data, uint32_t{0});
    default: return Store(data, uint64_t{0});
  }
}

// Of cuPointerGetAttributes; cuPointerGetAttribute has P2P_TOKENS as well.
bool IsAttribute(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
         attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

}  // namespace

CUresult Custom_cuPointerGetAttribute(Call& call, void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (!call.ok()) return call.result();
  if (data == nullptr || (!IsAttribute(attribute) && attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const Known known = Look(call, ptr);
  if (!known.any()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const CUresult result = Answer(known, attribute, ptr, data);
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

CUresult Custom_cuPointerGetAttributes(Call& call, unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                       CUdeviceptr ptr) {
  if (!call.ok()) return call.result();
  if (numAttributes == 0 || attributes == nullptr || data == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (!IsAttribute(attributes[i]) || data[i] == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const Known known = Look(call, ptr);
  for (unsigned i = 0; i < numAttributes; ++i) {
    // An attribute that the memory does not have reads as null here and is no failure.
    if (known.any()) {
      Answer(known, attributes[i], ptr, data[i]);
    } else {
      AnswerUnknown(attributes[i], ptr, data[i]);
    }
  }
  return CUDA_SUCCESS;
}

CUresult Custom_cuPointerSetAttribute(Call& call, const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (!call.ok()) return call.result();
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ClientMemory& memory = call.session().memory();
  // Synchronous copies and sets of this client complete, or are ordered, as the attribute asks in either state.
  int wanted = 0;
  std::memcpy(&wanted, value, sizeof(wanted));
  const auto allocation = memory.device().Find(ptr);
  if (!allocation) {
    if (const auto block = memory.host().Find(memory.Original(ptr)); block && block->mapped) {
      return call.Fail(CUDA_ERROR_NOT_SUPPORTED);  // measured, as below
    }
    return memory.host().SetSyncMemops(memory.Original(ptr), wanted != 0) ? CUDA_SUCCESS : call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (allocation->kind == DeviceAllocation::Kind::kMapped) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);  // measured
  memory.device().SetSyncMemops(ptr, wanted != 0);
  return CUDA_SUCCESS;
}

}  // namespace tessera
