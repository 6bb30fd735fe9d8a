#include "tests/server/worker/memory/fake_vmm.h"

namespace tessera {
namespace {

FakeVmm* g_vmm = nullptr;

CUresult Attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED && g_vmm->supported ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult Granularity(size_t* granularity, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *granularity = size_t{2} << 20;
  return CUDA_SUCCESS;
}

CUresult Reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr hint, unsigned long long) {
  uint64_t base = hint;
  if (base < g_vmm->refused_base + g_vmm->refused_bytes && g_vmm->refused_base < base + bytes) base = 0x7f0000000000;
  *address = base;
  g_vmm->reserved[base] = bytes;
  return CUDA_SUCCESS;
}

CUresult FreeAddress(CUdeviceptr address, size_t bytes) {
  const auto found = g_vmm->reserved.find(address);
  if (found == g_vmm->reserved.end() || found->second != bytes) {
    ++g_vmm->mistakes;
    return CUDA_ERROR_INVALID_VALUE;
  }
  g_vmm->reserved.erase(found);
  return CUDA_SUCCESS;
}

CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*, unsigned long long) {
  ++g_vmm->creates;
  if (g_vmm->used_bytes + bytes > g_vmm->device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  g_vmm->used_bytes += bytes;
  *handle = g_vmm->next_handle++;
  g_vmm->physical[*handle] = bytes;
  return CUDA_SUCCESS;
}

CUresult Release(CUmemGenericAllocationHandle handle) {
  const auto found = g_vmm->physical.find(handle);
  for (const auto& [base, mapping] : g_vmm->mapped) {
    if (mapping.physical == handle) ++g_vmm->mistakes;
  }
  if (found == g_vmm->physical.end()) {
    ++g_vmm->mistakes;
    return CUDA_ERROR_INVALID_VALUE;
  }
  g_vmm->used_bytes -= found->second;
  g_vmm->physical.erase(found);
  return CUDA_SUCCESS;
}

CUresult Map(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  bool inside = false;
  for (const auto& [base, size] : g_vmm->reserved) inside |= address >= base && address + bytes <= base + size;
  bool overlaps = false;
  for (const auto& [base, mapping] : g_vmm->mapped) overlaps |= address < base + mapping.bytes && base < address + bytes;
  if (!inside || overlaps || g_vmm->physical[handle] != bytes) {
    ++g_vmm->mistakes;
    return CUDA_ERROR_INVALID_VALUE;
  }
  g_vmm->mapped[address] = FakeVmm::Mapping{bytes, handle, {}};
  return CUDA_SUCCESS;
}

CUresult Unmap(CUdeviceptr address, size_t bytes) {
  const auto found = g_vmm->mapped.find(address);
  if (found == g_vmm->mapped.end() || found->second.bytes != bytes) {
    ++g_vmm->mistakes;
    return CUDA_ERROR_INVALID_VALUE;
  }
  g_vmm->mapped.erase(found);
  return CUDA_SUCCESS;
}

CUresult SetAccess(CUdeviceptr address, size_t, const CUmemAccessDesc* access, size_t count) {
  const auto found = g_vmm->mapped.find(address);
  if (found == g_vmm->mapped.end()) {
    ++g_vmm->mistakes;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      found->second.readable.erase(access[i].location.id);
    } else {
      found->second.readable.insert(access[i].location.id);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

DriverTable FakeVmm::Table() {
  g_vmm = this;
  DriverTable table;
  table.cuDeviceGetAttribute = Attribute;
  table.cuMemGetAllocationGranularity = Granularity;
  table.cuMemAddressReserve = Reserve;
  table.cuMemAddressFree = FreeAddress;
  table.cuMemCreate = Create;
  table.cuMemRelease = Release;
  table.cuMemMap = Map;
  table.cuMemUnmap = Unmap;
  table.cuMemSetAccess = SetAccess;
  return table;
}

}  // namespace tessera
