#include "server/worker/memory/device_chunks.h"

#include <algorithm>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"

namespace tessera {

DeviceChunks::~DeviceChunks() {
  for (auto& [device, state] : devices_) ReleaseCached(device);
}

DeviceChunks::Device& DeviceChunks::Of(CUdevice device) {
  Device& state = devices_[device];
  if (state.known) return state;
  state.known = true;
  int supported = 0;
  state.usable = driver_.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  if (state.usable != CUDA_SUCCESS) return state;
  if (supported == 0) {
    LogError("device {} has no virtual memory management, which all device memory of a session is made of; it cannot be used",
             device);
    state.usable = CUDA_ERROR_NOT_SUPPORTED;
    return state;
  }
  CUmemAllocationProp& properties = state.properties;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  int exportable = 0;
  if (driver_.cuDeviceGetAttribute(&exportable, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) ==
          CUDA_SUCCESS &&
      exportable != 0) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  int direct = 0;
  if (driver_.cuDeviceGetAttribute(&direct, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device) ==
          CUDA_SUCCESS &&
      direct != 0) {
    properties.allocFlags.gpuDirectRDMACapable = 1;
  }
  size_t granularity = 0;
  state.usable = driver_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  state.granularity = std::max<uint64_t>(granularity, AddressSpace::kGranuleBytes);
  return state;
}

CUresult DeviceChunks::Acquire(CUdevice device, uint64_t bytes, Chunk* out) {
  Device& state = Of(device);
  if (state.usable != CUDA_SUCCESS) return state.usable;
  if (bytes > UINT64_MAX - state.granularity) return CUDA_ERROR_OUT_OF_MEMORY;
  bytes = (bytes + state.granularity - 1) / state.granularity * state.granularity;
  // Takes the youngest chunk of the right size, since its address translations are the likeliest to be still warm.
  for (auto it = state.cached.rbegin(); it != state.cached.rend(); ++it) {
    if (it->range.bytes != bytes) continue;
    *out = *it;
    state.cached_bytes -= bytes;
    state.cached.erase(std::next(it).base());
    return CUDA_SUCCESS;
  }
  CUresult result = Create(state, device, bytes, out);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && ReleaseCached(device) != 0) result = Create(state, device, bytes, out);
  return result;
}

CUresult DeviceChunks::Create(Device& state, CUdevice device, uint64_t bytes, Chunk* out) {
  return Charged(ledger_, device, MemoryKind::kAllocations, bytes, [&] { return CreateUncharged(state, device, bytes, out); });
}

CUresult DeviceChunks::CreateUncharged(Device& state, CUdevice device, uint64_t bytes, Chunk* out) {
  Chunk chunk;
  chunk.device = device;
  CUresult result = driver_.cuMemCreate(&chunk.physical, bytes, &state.properties, 0);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && state.properties.allocFlags.gpuDirectRDMACapable) {
    // Some machines report the attribute and refuse the flag (no peer memory module): go on without it.
    state.properties.allocFlags.gpuDirectRDMACapable = 0;
    result = driver_.cuMemCreate(&chunk.physical, bytes, &state.properties, 0);
  }
  if (result != CUDA_SUCCESS) return result;
  result = space_.Reserve(bytes, &chunk.range);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemMap(chunk.range.base, bytes, 0, chunk.physical, 0);
    if (result == CUDA_SUCCESS) {
      result = AllowAll(state, device, chunk.range);
      if (result == CUDA_SUCCESS) {
        *out = chunk;
        return CUDA_SUCCESS;
      }
      driver_.cuMemUnmap(chunk.range.base, bytes);
    }
    space_.Release(chunk.range.base);
  }
  driver_.cuMemRelease(chunk.physical);
  return result;
}

CUresult DeviceChunks::AllowAll(const Device& state, CUdevice device, const Range& range) {
  std::vector<CUmemAccessDesc> access(1 + state.accessors.size());
  access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].location.id = device;
  size_t count = 1;
  for (CUdevice accessor : state.accessors) {
    access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[count++].location.id = accessor;
  }
  for (CUmemAccessDesc& one : access) one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver_.cuMemSetAccess(range.base, range.bytes, access.data(), access.size());
}

void DeviceChunks::Return(const Chunk& chunk) {
  Device& state = Of(chunk.device);
  if (chunk.range.bytes > kCachedBytesMax) return Destroy(chunk);
  state.cached.push_back(chunk);
  state.cached_bytes += chunk.range.bytes;
  while (state.cached_bytes > kCachedBytesMax) {
    const Chunk oldest = state.cached.front();
    state.cached.pop_front();
    state.cached_bytes -= oldest.range.bytes;
    Destroy(oldest);
  }
}

void DeviceChunks::Destroy(const Chunk& chunk) {
  const CUresult result = driver_.cuMemUnmap(chunk.range.base, chunk.range.bytes);
  // An address whose mapping could not be removed must not be handed out again.
  if (result == CUDA_SUCCESS) space_.Release(chunk.range.base);
  const CUresult released = driver_.cuMemRelease(chunk.physical);
  // A mapping that could not be removed still holds the memory.
  if (result == CUDA_SUCCESS && released == CUDA_SUCCESS) ledger_.Give(chunk.device, MemoryKind::kAllocations, chunk.range.bytes);
  if (result != CUDA_SUCCESS || released != CUDA_SUCCESS) {
    LogDebug("device memory at {:#x} could not be released: results {} and {}", chunk.range.base, int(result), int(released));
  }
}

uint64_t DeviceChunks::ReleaseCached(CUdevice device) {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return 0;
  Device& state = found->second;
  const uint64_t bytes = state.cached_bytes;
  for (const Chunk& chunk : state.cached) Destroy(chunk);
  state.cached.clear();
  state.cached_bytes = 0;
  return bytes;
}

uint64_t DeviceChunks::CachedBytes(CUdevice device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? 0 : found->second.cached_bytes;
}

CUresult DeviceChunks::SetAccess(CUdevice device, CUdevice accessor, bool allow, const std::map<uint64_t, Chunk>& in_use) {
  if (accessor == device) return CUDA_SUCCESS;
  Device& state = Of(device);
  if (state.usable != CUDA_SUCCESS) return state.usable;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = accessor;
  access.flags = allow ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUresult result = CUDA_SUCCESS;
  const auto apply = [&](const Chunk& chunk) {
    if (chunk.device != device || result != CUDA_SUCCESS) return;
    result = driver_.cuMemSetAccess(chunk.range.base, chunk.range.bytes, &access, 1);
  };
  for (const auto& [base, chunk] : in_use) apply(chunk);
  for (const Chunk& chunk : state.cached) apply(chunk);
  if (result != CUDA_SUCCESS) return result;
  if (allow) {
    state.accessors.insert(accessor);
  } else {
    state.accessors.erase(accessor);
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera
