#include <algorithm>
#include <cstring>

#include "server/emulator/driver/graphs/graph_memory.h"

using namespace tessera::emulator;

namespace {

// The number behind an attribute; null for none. `is_high`: a high watermark, which may be reset.
uint64_t* Field(GraphMemoryUse& use, CUgraphMem_attribute attribute, bool* is_high) {
  *is_high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return &use.used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return &use.used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return &use.reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return &use.reserved_high;
    default: return nullptr;
  }
}

}  // namespace

extern "C" {

CUresult cuDeviceGetGraphMemAttribute(CUdevice number, CUgraphMem_attribute attr, void* value) {
  RETURN_ON_ERROR(CheckEntry());
  Device* device = GetDriver().device(number);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  GraphMemoryUse& use = device->graph_memory;
  std::lock_guard lock(use.mutex);
  bool is_high = false;
  const uint64_t* field = Field(use, attr, &is_high);
  RETURN_IF(value == nullptr || field == nullptr, CUDA_ERROR_INVALID_VALUE);
  memcpy(value, field, sizeof *field);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice number, CUgraphMem_attribute attr, void* value) {
  RETURN_ON_ERROR(CheckEntry());
  Device* device = GetDriver().device(number);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  GraphMemoryUse& use = device->graph_memory;
  std::lock_guard lock(use.mutex);
  bool is_high = false;
  uint64_t* field = Field(use, attr, &is_high);
  RETURN_IF(value == nullptr || field == nullptr || !is_high, CUDA_ERROR_INVALID_VALUE);
  uint64_t wanted = 0;
  memcpy(&wanted, value, sizeof wanted);
  RETURN_IF(wanted != 0, CUDA_ERROR_INVALID_VALUE);  // a watermark can only be reset
  *field = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ? use.used : use.reserved;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice number) {
  RETURN_ON_ERROR(CheckEntry());
  Device* device = GetDriver().device(number);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  GraphMemoryUse& use = device->graph_memory;
  std::lock_guard lock(use.mutex);
  const uint64_t keep = std::max(use.live, use.used);
  if (use.reserved <= keep) return CUDA_SUCCESS;
  device->Discharge(use.reserved - keep);
  use.reserved = keep;
  return CUDA_SUCCESS;
}

}  // extern "C"
