// Attributes of pointers.
#include <cstring>

#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;

namespace {

// Writes one attribute. `allocation` is null for pointers the driver does not know.
CUresult Get(void* data, CUpointer_attribute attribute, CUdeviceptr pointer, const Allocation* allocation) {
  auto put = [data](const auto& value) {
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  const bool host = allocation != nullptr && allocation->is_host();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(allocation->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE); return put(pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      RETURN_IF(allocation == nullptr || !host, CUDA_ERROR_INVALID_VALUE);
      return put(pointer);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned>(allocation->sync_memops));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned long long>(allocation->buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned>(allocation->kind == MemoryKind::kManaged));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(allocation->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(allocation->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(allocation->size_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(static_cast<unsigned>(allocation != nullptr));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned long long>(
          allocation->kind == MemoryKind::kMapped ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      unsigned flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      if ((allocation->kind == MemoryKind::kMapped || allocation->kind == MemoryKind::kPool) && allocation->write_mask == 0) {
        flags = allocation->read_mask != 0 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
      }
      return put(flags);
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(allocation->kind == MemoryKind::kPool ? allocation->owner : uint64_t{0});
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      RETURN_IF(allocation == nullptr || allocation->kind != MemoryKind::kMapped, CUDA_ERROR_INVALID_VALUE);
      return put(attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ? allocation->size_bytes : allocation->base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      RETURN_IF(allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
      return put(static_cast<unsigned long long>(allocation->buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return put(0u);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

size_t AttributeBytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return 4;
    default: return 8;
  }
}

bool Known(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
         attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(data == nullptr, CUDA_ERROR_INVALID_VALUE);
  const AllocationPtr found = GetDriver().memory.Find(ptr);
  if (found == nullptr) return Get(data, attribute, ptr, nullptr);
  const Allocation allocation = GetDriver().memory.Snapshot(found);
  if (allocation.absent) return Get(data, attribute, ptr, nullptr);  // as natively between a free and the next launch
  return Get(data, attribute, ptr, &allocation);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data, CUdeviceptr ptr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(numAttributes == 0 || attributes == nullptr || data == nullptr, CUDA_ERROR_INVALID_VALUE);
  // Unlike the single form this succeeds for any pointer and writes zeros where there is nothing to say.
  for (unsigned i = 0; i < numAttributes; ++i) {
    RETURN_IF(!Known(attributes[i]) || data[i] == nullptr, CUDA_ERROR_INVALID_VALUE);
    if (cuPointerGetAttribute(data[i], attributes[i], ptr) == CUDA_SUCCESS) continue;
    memset(data[i], 0, AttributeBytes(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      const int none = -2;  // CU_DEVICE_INVALID
      memcpy(data[i], &none, sizeof none);
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckUnsafeCall());
  const AllocationPtr allocation = GetDriver().memory.Find(ptr);
  RETURN_IF(allocation == nullptr || allocation->is_host(), CUDA_ERROR_INVALID_VALUE);
  unsigned on = 0;
  memcpy(&on, value, sizeof on);
  GetDriver().memory.Update(allocation->base, [on](Allocation& changed) { changed.sync_memops = on != 0; });
  return CUDA_SUCCESS;
}

}  // extern "C"
