// Physical memory on the host, where it is mapped, and what other calls say of that.
#include <unistd.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kNot = CUDA_ERROR_NOT_SUPPORTED;
constexpr CUmemLocation kHost{CU_MEM_LOCATION_TYPE_HOST, 0}, kNode{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
    kDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr auto kByFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto kNone = CU_MEM_ACCESS_FLAGS_PROT_NONE, kRead = CU_MEM_ACCESS_FLAGS_PROT_READ,
               kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
using Handle = CUmemGenericAllocationHandle;

constexpr size_t kBytes = size_t{4} << 20;

CUmemAllocationProp Props(CUmemLocation location, CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = location;
  props.requestedHandleTypes = types;
  return props;
}

// What `ask` answers about a new allocation; what refuses the allocation where it cannot be made.
template <typename Ask>
CUresult OfAllocation(const CUmemAllocationProp& props, const Ask& ask, size_t bytes = kBytes) {
  Handle memory;
  CUresult result = cuMemCreate(&memory, bytes, &props, 0);
  if (result != CUDA_SUCCESS) return result;
  result = ask(memory);
  cuMemRelease(memory);
  return result;
}
CUresult Create(const CUmemAllocationProp& props, size_t bytes = kBytes) {
  return OfAllocation(
      props, [](Handle) { return CUDA_SUCCESS; }, bytes);
}

CUresult Allow(CUdeviceptr address, size_t bytes, CUmemLocation location, CUmemAccess_flags flags, size_t count = 1) {
  const CUmemAccessDesc access{location, flags};
  return cuMemSetAccess(address, bytes, &access, count);
}
CUresult AccessOf(CUdeviceptr address, CUmemLocation location) {
  return cuMemGetAccess(Out<unsigned long long>(), &location, address);
}

// At the beginning of a reservation of 2 * kBytes.
struct Mapping {
  Handle memory;
  CUdeviceptr address;
  void* host() const { return reinterpret_cast<void*>(address); }
};

// The same about a mapping that nobody has access to, and about one that the program and its device use.
template <typename Ask>
CUresult OfMapping(const Ask& ask, bool open = false) {
  return OfAllocation(Props(kNode), [&](Handle memory) {
    CUdeviceptr address;
    CHECK_DRIVER(cuMemAddressReserve(&address, 2 * kBytes, 0, 0, 0));
    CHECK_DRIVER(cuMemMap(address, kBytes, 0, memory, 0));
    if (open) CHECK_DRIVER(Allow(address, kBytes, kDevice, kReadWrite));
    if (open) CHECK_DRIVER(Allow(address, kBytes, kHost, kReadWrite));
    const CUresult result = ask(Mapping{memory, address});
    CHECK_DRIVER(cuMemUnmap(address, 2 * kBytes));
    CHECK_DRIVER(cuMemAddressFree(address, 2 * kBytes));
    return result;
  });
}
template <typename Ask>
CUresult OfOpen(const Ask& ask) {
  return OfMapping(ask, true);
}

CUresult Retain(CUdeviceptr address) {
  Handle memory;
  const CUresult result = cuMemRetainAllocationHandle(&memory, reinterpret_cast<void*>(address));
  if (result == CUDA_SUCCESS) cuMemRelease(memory);
  return result;
}
CUresult Order(CUdeviceptr address) {
  const int ordered = 1;
  return cuPointerSetAttribute(&ordered, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

CUresult Export(Handle memory, CUmemAllocationHandleType type) {
  int file = -1;
  const CUresult result = cuMemExportToShareableHandle(&file, memory, type, 0);
  if (result == CUDA_SUCCESS) close(file);
  return result;
}
template <typename Ask>
CUresult OfFile(const Ask& ask) {
  return OfAllocation(Props(kNode, kByFile), [&](Handle memory) {
    int file = -1;
    CHECK_DRIVER(cuMemExportToShareableHandle(&file, memory, kByFile, 0));
    const CUresult result = ask(reinterpret_cast<void*>(static_cast<intptr_t>(file)));
    close(file);
    return result;
  });
}
template <typename Ask>
CUresult OfImported(const Ask& ask) {
  return OfFile([&](void* file) {
    Handle memory;
    CUresult result = cuMemImportFromShareableHandle(&memory, file, kByFile);
    if (result != CUDA_SUCCESS) return result;
    result = ask(memory);
    cuMemRelease(memory);
    return result;
  });
}

#define HOST_ROW(...) __VA_ARGS__, kOnLinks, kNot, "README.md"
const Row kRows[] = {
    {HOST_ROW("cuMemCreate: on the host", "memory/host_allocation_calls.cc", CUDA_SUCCESS, [] { return Create(Props(kHost)); })},
    {HOST_ROW("cuMemCreate: on a node of the host", "memory/host_allocation_calls.cc", CUDA_SUCCESS,
              [] { return Create(Props(kNode, kByFile)); })},
    {HOST_ROW("cuMemCreate: on the host, by descriptors", "memory/host_allocation_calls.cc", kInvalid,
              [] { return Create(Props(kHost, kByFile)); })},
    {HOST_ROW("cuMemCreate: on the host, by fabric handles", "memory/host_allocation_calls.cc", kInvalid,
              [] { return Create(Props(kHost, CU_MEM_HANDLE_TYPE_FABRIC)); })},
    {HOST_ROW("cuMemCreate: on a node, by fabric handles", "memory/host_allocation_calls.cc", CUDA_ERROR_NOT_PERMITTED,
              [] { return Create(Props(kNode, CU_MEM_HANDLE_TYPE_FABRIC)); })},
    {HOST_ROW("cuMemCreate: on a node that does not exist", "memory/host_allocation_calls.cc", kInvalid,
              [] {
                return Create(Props({CU_MEM_LOCATION_TYPE_HOST_NUMA, 99}));
              })},
    {HOST_ROW("cuMemCreate: on the nearest node", "memory/host_allocation_calls.cc", kInvalid,
              [] {
                return Create(Props({CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}));
              })},
    {HOST_ROW("cuMemCreate: on the host, for network cards", "memory/host_allocation_calls.cc", kInvalid,
              [] {
                CUmemAllocationProp props = Props(kHost);
                props.allocFlags.gpuDirectRDMACapable = 1;
                return Create(props);
              })},
    {HOST_ROW("cuMemCreate: on the host, compressible", "memory/host_allocation_calls.cc", kInvalid,
              [] {
                CUmemAllocationProp props = Props(kHost);
                props.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
                return Create(props);
              })},
    {HOST_ROW("cuMemCreate: more than the host has", "memory/host_allocations.cc", CUDA_ERROR_OUT_OF_MEMORY,
              [] { return Create(Props(kHost), size_t{1} << 46); })},
    {HOST_ROW("cuMemGetAllocationPropertiesFromHandle: host memory", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] {
                return OfAllocation(Props(kHost), [](Handle memory) {
                  return cuMemGetAllocationPropertiesFromHandle(Out<CUmemAllocationProp>(), memory);
                });
              })},
    {HOST_ROW(
        "cuMemMap: a part of host memory", "memory/host_allocations.cc", kNot,
        [] { return OfAllocation(Props(kHost), [](Handle memory) { return cuMemMap(Reserved(), kBytes / 2, 0, memory, 0); }); })},
    {HOST_ROW("cuMemMap: host memory, offset", "memory/host_allocation_calls.cc", kNot,
              [] {
                return OfAllocation(Props(kHost),
                                    [](Handle memory) { return cuMemMap(Reserved(), kBytes / 2, kBytes / 2, memory, 0); });
              })},
    {HOST_ROW("cuMemMap: over host memory", "calls/virtual_memory.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemMap(m.address, kBytes / 2, 0, Physical(), 0); }); })},
    {HOST_ROW("cuMemMap: host memory over host memory", "memory/host_allocations.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemMap(m.address, kBytes, 0, m.memory, 0); }); })},
    {HOST_ROW("cuMemMap: host memory again beside", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return cuMemMap(m.address + kBytes, kBytes, 0, m.memory, 0); }); })},
    {HOST_ROW("cuMemUnmap: a part of host memory", "memory/host_allocations.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemUnmap(m.address, kBytes / 2); }); })},
    {HOST_ROW("cuMemUnmap: the end of host memory", "memory/host_allocations.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemUnmap(m.address + kBytes / 2, kBytes / 2); }); })},
    {HOST_ROW("cuMemUnmap: host memory and what is behind it", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return cuMemUnmap(m.address, 2 * kBytes); }); })},
    {HOST_ROW("cuMemAddressFree: host memory is mapped", "calls/virtual_memory.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemAddressFree(m.address, 2 * kBytes); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, by its device", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kDevice, kReadWrite); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, read by its device", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kDevice, kRead); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, by the program", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kHost, kReadWrite); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, by nobody", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kHost, kNone); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, by another node", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] {
                return OfMapping([](Mapping m) {
                  return Allow(m.address, kBytes, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 1}, kReadWrite);
                });
              })},
    {HOST_ROW("cuMemSetAccess: host memory, by the nearest node", "memory/host_allocations.cc", kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  return Allow(m.address, kBytes, {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}, kReadWrite);
                });
              })},
    {HOST_ROW("cuMemSetAccess: host memory, by a device that does not exist", "memory/host_allocations.cc", kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  return Allow(m.address, kBytes, {CU_MEM_LOCATION_TYPE_DEVICE, 99}, kReadWrite);
                });
              })},
    {HOST_ROW("cuMemSetAccess: host memory, by no location", "memory/host_allocations.cc", kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  return Allow(m.address, kBytes, {CU_MEM_LOCATION_TYPE_INVALID, 0}, kReadWrite);
                });
              })},
    {HOST_ROW(
        "cuMemSetAccess: host memory, for writing alone", "memory/host_allocations.cc", kInvalid,
        [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kHost, static_cast<CUmemAccess_flags>(2)); }); })},
    {HOST_ROW("cuMemSetAccess: a part of host memory", "memory/host_allocation_calls.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes / 2, kHost, kRead); }); })},
    {HOST_ROW("cuMemSetAccess: host memory and what is behind it", "memory/host_allocation_calls.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, 2 * kBytes, kHost, kRead); }); })},
    {HOST_ROW("cuMemSetAccess: host memory, by none", "memory/host_allocations.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return Allow(m.address, kBytes, kHost, kRead, 0); }); })},
    {HOST_ROW("cuMemSetAccess: host memory and its device's, by the program", "memory/host_allocation_calls.cc", kNot,
              [] {
                return OfMapping([](Mapping m) {
                  CHECK_DRIVER(cuMemMap(m.address + kBytes, kBytes / 2, 0, Physical(), 0));
                  return Allow(m.address, kBytes + kBytes / 2, kHost, kReadWrite);
                });
              })},
    {HOST_ROW("cuMemSetAccess: host memory and its device's, by the device", "memory/host_allocation_calls.cc", CUDA_SUCCESS,
              [] {
                return OfMapping([](Mapping m) {
                  CHECK_DRIVER(cuMemMap(m.address + kBytes, kBytes / 2, 0, Physical(), 0));
                  return Allow(m.address, kBytes + kBytes / 2, kDevice, kReadWrite);
                });
              })},
    {HOST_ROW("cuMemGetAccess: host memory", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return AccessOf(m.address + 5, kHost); }); })},
    {HOST_ROW("cuMemGetAccess: host memory, of a device that does not exist", "memory/host_allocations.cc",
              CUDA_ERROR_INVALID_DEVICE,
              [] { return OfMapping([](Mapping m) {
                     return AccessOf(m.address, {CU_MEM_LOCATION_TYPE_DEVICE, 99});
                   }); })},
    {HOST_ROW("cuMemGetAccess: host memory, of the nearest node", "memory/host_allocations.cc", CUDA_ERROR_INVALID_DEVICE,
              [] {
                return OfMapping([](Mapping m) { return AccessOf(m.address, {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}); });
              })},
    {HOST_ROW("cuMemRetainAllocationHandle: host memory", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfMapping([](Mapping m) { return Retain(m.address + 5); }); })},
    {HOST_ROW("cuMemHostGetFlags: mapped host memory without access", "calls/host_memory.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemHostGetFlags(Out<unsigned>(), m.host()); }); })},
    {HOST_ROW("cuMemHostGetDevicePointer: mapped host memory without access", "calls/host_memory.cc", kInvalid,
              [] { return OfMapping([](Mapping m) { return cuMemHostGetDevicePointer(Out<CUdeviceptr>(), m.host(), 0); }); })},
    {HOST_ROW(
        "cuMemGetAddressRange: mapped host memory without access", "calls/memory.cc", CUDA_ERROR_NOT_FOUND,
        [] { return OfMapping([](Mapping m) { return cuMemGetAddressRange(Out<CUdeviceptr>(), Out<size_t>(), m.address); }); })},
    {HOST_ROW("cuPointerGetAttribute: device pointer of mapped host memory without access", "calls/pointer_attributes.cc",
              kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  return cuPointerGetAttribute(Out<CUdeviceptr>(), CU_POINTER_ATTRIBUTE_DEVICE_POINTER, m.address);
                });
              })},
    {HOST_ROW("cuPointerGetAttribute: host pointer of mapped host memory without access", "calls/pointer_attributes.cc", kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  return cuPointerGetAttribute(Out<CUdeviceptr>(), CU_POINTER_ATTRIBUTE_HOST_POINTER, m.address);
                });
              })},
    {HOST_ROW("cuMemHostGetFlags: mapped host memory", "calls/host_memory.cc", CUDA_SUCCESS,
              [] { return OfOpen([](Mapping m) { return cuMemHostGetFlags(Out<unsigned>(), m.host()); }); })},
    {HOST_ROW("cuMemHostGetDevicePointer: mapped host memory", "calls/host_memory.cc", CUDA_SUCCESS,
              [] { return OfOpen([](Mapping m) { return cuMemHostGetDevicePointer(Out<CUdeviceptr>(), m.host(), 0); }); })},
    {HOST_ROW(
        "cuMemGetAddressRange: mapped host memory", "calls/memory.cc", CUDA_SUCCESS,
        [] { return OfOpen([](Mapping m) { return cuMemGetAddressRange(Out<CUdeviceptr>(), Out<size_t>(), m.address); }); })},
    {HOST_ROW("cuMemFreeHost: mapped host memory", "memory/host_memory.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemFreeHost(m.host()); }); })},
    {HOST_ROW("cuMemFree: mapped host memory", "calls/memory.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemFree(m.address); }); })},
    {HOST_ROW("cuMemFreeAsync: mapped host memory", "calls/pool.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemFreeAsync(m.address, nullptr); }); })},
    {HOST_ROW("cuMemHostRegister: mapped host memory", "calls/host_memory.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemHostRegister(m.host(), 4096, 0); }); })},
    {HOST_ROW("cuMemHostUnregister: mapped host memory", "calls/host_memory.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemHostUnregister(m.host()); }); })},
    {HOST_ROW("cuIpcGetMemHandle: mapped host memory", "calls/ipc.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuIpcGetMemHandle(Out<CUipcMemHandle>(), m.address); }); })},
    {HOST_ROW("cuPointerSetAttribute: mapped host memory", "calls/pointer_attributes.cc", kNot,
              [] { return OfOpen([](Mapping m) { return Order(m.address); }); })},
    {HOST_ROW("cuMemsetD8: mapped host memory", "calls/set.cc", CUDA_SUCCESS,
              [] { return OfOpen([](Mapping m) { return cuMemsetD8(m.address, 1, kBytes); }); })},
    {HOST_ROW("cuMemsetD8: past the end of mapped host memory", "calls/set.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemsetD8(m.address, 1, kBytes + 1); }); })},
    {HOST_ROW("cuMemcpyDtoD: past the end of mapped host memory", "copies/copy_bytes.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemcpyDtoD(Block(2 * kBytes), m.address, kBytes + 1); }); })},
    {HOST_ROW("cuMemcpyHtoD: host memory that is mapped for the program alone", "copies/copy_bytes.cc", CUDA_SUCCESS,
              [] {
                return OfMapping([](Mapping m) {
                  CHECK_DRIVER(Allow(m.address, kBytes, kHost, kReadWrite));
                  return cuMemcpyHtoD(m.address, Pages(), 4096);
                });
              })},
    {HOST_ROW("cuMemsetD8: host memory that is mapped for the program alone", "calls/set.cc", kInvalid,
              [] {
                return OfMapping([](Mapping m) {
                  CHECK_DRIVER(Allow(m.address, kBytes, kHost, kReadWrite));
                  return cuMemsetD8(m.address, 1, 4096);
                });
              })},
    {HOST_ROW("cuMemcpyDtoD: host memory that is mapped for its device alone", "copies/copy_bytes.cc", CUDA_SUCCESS,
              [] {
                return OfMapping([](Mapping m) {
                  CHECK_DRIVER(Allow(m.address, kBytes, kDevice, kReadWrite));
                  return cuMemcpyDtoD(m.address, m.address + kBytes / 2, 4096);
                });
              })},
    {HOST_ROW(
        "cuMemAdvise: mapped host memory", "calls/managed.cc", kInvalid,
        [] { return OfOpen([](Mapping m) { return cuMemAdvise(m.address, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice); }); })},
    {HOST_ROW("cuMemPrefetchAsync: mapped host memory", "calls/managed.cc", kInvalid,
              [] { return OfOpen([](Mapping m) { return cuMemPrefetchAsync(m.address, 4096, kDevice, 0, nullptr); }); })},
    {HOST_ROW("cuMemExportToShareableHandle: host memory not for others", "memory/host_allocations.cc", kInvalid,
              [] { return OfAllocation(Props(kNode), [](Handle memory) { return Export(memory, kByFile); }); })},
    {HOST_ROW("cuMemExportToShareableHandle: host memory by another type", "calls/share.cc", kInvalid,
              [] {
                return OfAllocation(Props(kNode, kByFile),
                                    [](Handle memory) { return Export(memory, CU_MEM_HANDLE_TYPE_FABRIC); });
              })},
    {HOST_ROW("cuMemExportToShareableHandle: host memory", "memory/host_allocations.cc", CUDA_SUCCESS,
              [] { return OfAllocation(Props(kNode, kByFile), [](Handle memory) { return Export(memory, kByFile); }); })},
    {HOST_ROW("cuMemExportToShareableHandle: host memory of another process", "memory/host_allocations.cc", kInvalid,
              [] { return OfImported([](Handle memory) { return Export(memory, kByFile); }); })},
    {HOST_ROW("cuMemPoolImportFromShareableHandle: host memory that is no pool", "calls/share.cc", kNot,
              [] {
                return OfFile(
                    [](void* file) { return cuMemPoolImportFromShareableHandle(Out<CUmemoryPool>(), file, kByFile, 0); });
              })},
};

}  // namespace

std::span<const Row> HostAllocationRows() { return kRows; }

}  // namespace refusals
