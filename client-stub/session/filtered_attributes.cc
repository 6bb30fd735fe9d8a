#include "client-stub/session/filtered_attributes.h"

namespace tessera {
namespace {

constexpr const char* kNoClientPages = "the GPU sees the memory of the server's process, not the program's";
constexpr const char* kNoConcurrency = "pages of managed memory move when work begins and when the program touches them";
constexpr const char* kNoSharing = "processes of one server share device memory by descriptors, and with nobody else";
constexpr const char* kOwnHostMemory = "memory on the host needs nothing of the driver's but its registration";
constexpr const char* kNoRdma = "network cards of the client's host cannot reach the server's GPU";
constexpr const char* kNoServerHost = "host memory of the server is not the program's host memory";
constexpr const char* kNoGraphics = "graphics interop is not forwarded";
constexpr const char* kNoDecompression = "memory of cuMemAlloc is not made for the decompression engine";
constexpr const char* kNoMulticast = "multicast needs the switches between the GPUs of a host to itself";
constexpr const char* kNoPages = "client and server share no memory";

constexpr FilteredAttribute kFiltered[] = {
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0, false, kNoClientPages},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0, false, kNoClientPages},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0, false, kNoClientPages},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0, false, kNoClientPages},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1, false, "managed memory needs nothing of the driver's"},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0, false, kNoConcurrency},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0, false, kNoConcurrency},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 0, false, kNoSharing},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 0, false, kNoSharing},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0, false, kNoSharing},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0, false, kNoSharing, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0, false, kNoSharing},
    {CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0, false, kNoSharing},
    {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0, false, kNoMulticast},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0, false, kNoRdma},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0, false, kNoRdma},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0, false, kNoRdma},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0, false, kNoRdma},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1, false, kOwnHostMemory},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1, false, kOwnHostMemory},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0, false, kNoServerHost},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1, false, kOwnHostMemory},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1, false, kOwnHostMemory},
    {CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, CU_DEVICE_NUMA_CONFIG_NONE, false, kNoServerHost},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1, false, kNoServerHost},
    {CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0, false, kNoDecompression},
    {CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, 0, false, kNoDecompression},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0, false, kNoGraphics},
    {CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED, 0, false, kNoGraphics},
    {CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED, 0, false, kNoGraphics},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0, true, kNoPages},
    {CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 0, true, kNoPages},
};

}  // namespace

std::span<const FilteredAttribute> FilteredAttributes() { return kFiltered; }

std::optional<int> FilteredValue(int attribute, int driver_value, bool mirrored) {
  for (const FilteredAttribute& filtered : kFiltered) {
    if (filtered.attribute == attribute) {
      if (filtered.mirrored_only && !mirrored) continue;
      return filtered.kept_bits != 0 ? driver_value & filtered.kept_bits : filtered.value;
    }
  }
  return std::nullopt;
}

}  // namespace tessera
