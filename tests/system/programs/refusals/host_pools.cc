// Pools of host memory, their blocks, and what other calls say of those.
#include <unistd.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kNot = CUDA_ERROR_NOT_SUPPORTED;
constexpr CUmemLocation kHost{CU_MEM_LOCATION_TYPE_HOST, 0}, kNode{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
    kNearest{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}, kDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr auto kByFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

CUmemPoolProps Props(CUmemLocation location, CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = location;
  props.handleTypes = types;
  return props;
}

// What `ask` answers about a new pool; what refuses the pool where it cannot be made.
template <typename Ask>
CUresult OfPool(const CUmemPoolProps& props, const Ask& ask) {
  CUmemoryPool pool;
  CUresult result = cuMemPoolCreate(&pool, &props);
  if (result != CUDA_SUCCESS) return result;
  result = ask(pool);
  cuMemPoolDestroy(pool);
  return result;
}
CUresult Create(const CUmemPoolProps& props) {
  return OfPool(props, [](CUmemoryPool) { return CUDA_SUCCESS; });
}

constexpr size_t kBytes = 1000;

// The same about a block of kBytes, which kernels may use. `ask` frees it if it answers CUDA_SUCCESS and `freed`.
template <typename Ask>
CUresult OfBlock(const Ask& ask, bool freed = false) {
  return OfPool(Props(kNode, kByFile), [&](CUmemoryPool pool) {
    const CUmemAccessDesc access{kDevice, kReadWrite};
    CHECK_DRIVER(cuMemPoolSetAccess(pool, &access, 1));
    Stream s;
    CUdeviceptr block;
    CHECK_DRIVER(cuMemAllocFromPoolAsync(&block, kBytes, pool, s));
    CHECK_DRIVER(cuStreamSynchronize(s));
    const CUresult result = ask(block);
    if (!freed) cuMemFreeAsync(block, s);
    cuStreamSynchronize(s);
    return result;
  });
}

CUresult Allow(CUmemLocation location, CUmemAccess_flags flags, size_t count = 1) {
  return OfPool(Props(kNode), [&](CUmemoryPool pool) {
    const CUmemAccessDesc access{location, flags};
    return cuMemPoolSetAccess(pool, &access, count);
  });
}
CUresult AccessOf(CUmemLocation location) {
  return OfPool(Props(kNode), [&](CUmemoryPool pool) { return cuMemPoolGetAccess(Out<CUmemAccess_flags>(), pool, &location); });
}

CUresult OwnPool(CUmemLocation location, CUmemoryPool* pool) {
  return cuMemGetDefaultMemPool(pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
}
CUresult OwnPool(CUmemLocation location) { return OwnPool(location, Out<CUmemoryPool>()); }

// What `ask` answers about a pool that came by a file, and where its one block lies.
template <typename Ask>
CUresult OfImported(const Ask& ask) {
  return OfPool(Props(kNode, kByFile), [&](CUmemoryPool pool) {
    const CUmemAccessDesc access{kDevice, kReadWrite};
    CHECK_DRIVER(cuMemPoolSetAccess(pool, &access, 1));
    Stream s;
    CUdeviceptr block;
    CHECK_DRIVER(cuMemAllocFromPoolAsync(&block, kBytes, pool, s));
    CHECK_DRIVER(cuStreamSynchronize(s));
    int file;
    CHECK_DRIVER(cuMemPoolExportToShareableHandle(&file, pool, kByFile, 0));
    CUmemPoolPtrExportData data;
    CHECK_DRIVER(cuMemPoolExportPointer(&data, block));
    CUmemoryPool imported;
    CUresult result =
        cuMemPoolImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(file)), kByFile, 0);
    close(file);
    if (result == CUDA_SUCCESS) {
      result = ask(imported, data);
      cuMemPoolDestroy(imported);
    }
    cuMemFreeAsync(block, s);
    cuStreamSynchronize(s);
    return result;
  });
}

#define HOST_POOL_ROW(...) __VA_ARGS__, kOnLinks, kNot, "README.md"
const Row kRows[] = {
    {HOST_POOL_ROW("cuMemPoolCreate: on the host", "memory/host_pool_calls.cc", CUDA_SUCCESS,
                   [] { return Create(Props(kHost)); })},
    {HOST_POOL_ROW("cuMemPoolCreate: on a node of the host", "memory/host_pool_calls.cc", CUDA_SUCCESS,
                   [] { return Create(Props(kNode, kByFile)); })},
    {HOST_POOL_ROW("cuMemPoolCreate: on no node of the host, by descriptors", "memory/host_pool_calls.cc", kInvalid,
                   [] { return Create(Props(kHost, kByFile)); })},
    {HOST_POOL_ROW("cuMemPoolCreate: on a node that does not exist", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return Create(Props({CU_MEM_LOCATION_TYPE_HOST_NUMA, 99}));
                   })},
    {HOST_POOL_ROW("cuMemPoolCreate: on the nearest node of the host", "memory/host_pool_calls.cc", kInvalid,
                   [] { return Create(Props(kNearest)); })},
    {HOST_POOL_ROW("cuMemPoolCreate: on the host, of no type", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     CUmemPoolProps props = Props(kHost);
                     props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
                     return Create(props);
                   })},
    {HOST_POOL_ROW("cuMemPoolCreate: on the host, with bytes that are reserved", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     CUmemPoolProps props = Props(kHost);
                     props.reserved[0] = 1;
                     return Create(props);
                   })},
    {"cuMemGetDefaultMemPool: of managed memory on the host", "memory/host_pool_calls.cc", CUDA_SUCCESS,
     [] {
       CUmemLocation host = kHost;
       return cuMemGetDefaultMemPool(Out<CUmemoryPool>(), &host, CU_MEM_ALLOCATION_TYPE_MANAGED);
     },
     kNeedsGpu, kNot, "README.md"},
    {"cuGraphAddMemAllocNode: host memory", "graphs/graph_params.cc", kNot,
     [] {
       CUDA_MEM_ALLOC_NODE_PARAMS params{};
       params.poolProps = Props(kHost);
       params.bytesize = 64;
       Graph g;
       return cuGraphAddMemAllocNode(Out<CUgraphNode>(), g, nullptr, 0, &params);
     }},
    {HOST_POOL_ROW("cuMemGetDefaultMemPool: the host", "memory/host_pool_calls.cc", CUDA_SUCCESS, [] { return OwnPool(kHost); })},
    {HOST_POOL_ROW("cuMemGetDefaultMemPool: a node that does not exist", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return OwnPool({CU_MEM_LOCATION_TYPE_HOST_NUMA, 99});
                   })},
    {"cuMemGetDefaultMemPool: the nearest node of the host", "memory/host_pool_calls.cc", kNot, [] { return OwnPool(kNearest); }},
    {HOST_POOL_ROW("cuMemPoolDestroy: the host's own pool", "memory/host_pools.cc", kInvalid,
                   [] {
                     CUmemoryPool pool;
                     const CUresult result = OwnPool(kHost, &pool);
                     return result == CUDA_SUCCESS ? cuMemPoolDestroy(pool) : result;
                   })},
    {HOST_POOL_ROW("cuDeviceSetMemPool: a pool of host memory", "server", kInvalid,
                   [] { return OfPool(Props(kHost), [](CUmemoryPool pool) { return cuDeviceSetMemPool(0, pool); }); })},
    {HOST_POOL_ROW("cuMemSetMemPool: a pool of host memory for a device", "server", kInvalid,
                   [] {
                     return OfPool(Props(kHost), [](CUmemoryPool pool) {
                       CUmemLocation device = kDevice;
                       return cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
                     });
                   })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: device, host memory", "memory/host_pool_calls.cc", CUDA_SUCCESS,
                   [] { return Allow(kDevice, kReadWrite); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: nothing for the device, host memory", "memory/host_pool_calls.cc", CUDA_SUCCESS,
                   [] { return Allow(kDevice, CU_MEM_ACCESS_FLAGS_PROT_NONE); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: reading for the device, host memory", "memory/host_pool_calls.cc", kNot,
                   [] { return Allow(kDevice, CU_MEM_ACCESS_FLAGS_PROT_READ); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: nothing for the host", "memory/host_pool_calls.cc", kNot,
                   [] { return Allow(kHost, CU_MEM_ACCESS_FLAGS_PROT_NONE); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: the host", "memory/host_pool_calls.cc", CUDA_SUCCESS,
                   [] { return Allow(kHost, kReadWrite); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: the nearest node of the host", "memory/host_pool_calls.cc", kInvalid,
                   [] { return Allow(kNearest, kReadWrite); })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: device that does not exist, host memory", "memory/host_pool_calls.cc",
                   CUDA_ERROR_INVALID_DEVICE,
                   [] {
                     return Allow({CU_MEM_LOCATION_TYPE_DEVICE, 99}, kReadWrite);
                   })},
    {HOST_POOL_ROW("cuMemPoolSetAccess: unknown access, host memory", "memory/host_pool_calls.cc", kInvalid,
                   [] { return Allow(kDevice, static_cast<CUmemAccess_flags>(2)); })},
    {HOST_POOL_ROW("cuMemPoolGetAccess: the host", "memory/host_pool_calls.cc", CUDA_SUCCESS, [] { return AccessOf(kHost); })},
    {HOST_POOL_ROW("cuMemPoolGetAccess: the nearest node of the host", "memory/host_pool_calls.cc", kInvalid,
                   [] { return AccessOf(kNearest); })},
    {HOST_POOL_ROW("cuMemPoolGetAccess: device that does not exist, host memory", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return AccessOf({CU_MEM_LOCATION_TYPE_DEVICE, 99});
                   })},
    {HOST_POOL_ROW("cuMemAllocFromPoolAsync: captured, host memory", "memory/host_pool_calls.cc", kNot,
                   [] {
                     return OfPool(Props(kHost), [](CUmemoryPool pool) {
                       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
                       return cuMemAllocFromPoolAsync(Out<CUdeviceptr>(), 64, pool, c);
                     });
                   })},
    {HOST_POOL_ROW("cuMemFreeAsync: captured, host memory from before", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return OfBlock([](CUdeviceptr block) {
                       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
                       return cuMemFreeAsync(block, c);
                     });
                   })},
    {HOST_POOL_ROW("cuMemFreeAsync: within a block of a host pool", "memory/host_pools.cc", kInvalid,
                   [] {
                     return OfBlock([](CUdeviceptr block) {
                       Stream s;
                       return cuMemFreeAsync(block + 8, s);
                     });
                   })},
    {HOST_POOL_ROW("cuMemFree: a block of a host pool", "memory/host_pools.cc", CUDA_SUCCESS,
                   [] { return OfBlock([](CUdeviceptr block) { return cuMemFree(block); }, true); })},
    {HOST_POOL_ROW("cuMemFreeHost: a block of a host pool", "memory/host_memory.cc", kInvalid,
                   [] { return OfBlock([](CUdeviceptr block) { return cuMemFreeHost(reinterpret_cast<void*>(block)); }); })},
    {HOST_POOL_ROW(
        "cuMemHostRegister: a block of a host pool", "calls/host_memory.cc", kInvalid,
        [] { return OfBlock([](CUdeviceptr block) { return cuMemHostRegister(reinterpret_cast<void*>(block), kBytes, 0); }); })},
    {HOST_POOL_ROW("cuMemHostGetFlags: a block of a host pool", "calls/host_memory.cc", kInvalid,
                   [] {
                     return OfBlock(
                         [](CUdeviceptr block) { return cuMemHostGetFlags(Out<unsigned>(), reinterpret_cast<void*>(block)); });
                   })},
    {HOST_POOL_ROW("cuMemHostGetDevicePointer: a block of a host pool", "calls/host_memory.cc", kInvalid,
                   [] {
                     return OfBlock([](CUdeviceptr block) {
                       return cuMemHostGetDevicePointer(Out<CUdeviceptr>(), reinterpret_cast<void*>(block), 0);
                     });
                   })},
    {HOST_POOL_ROW("cuIpcGetMemHandle: a block of a host pool", "calls/share.cc", kInvalid,
                   [] { return OfBlock([](CUdeviceptr block) { return cuIpcGetMemHandle(Out<CUipcMemHandle>(), block); }); })},
    {HOST_POOL_ROW("cuMemcpy: a block of a host pool", "copies/copy_bytes.cc", CUDA_SUCCESS,
                   [] {
                     Block device;
                     return OfBlock([&](CUdeviceptr block) { return cuMemcpy(device, block, kBytes); });
                   })},
    {HOST_POOL_ROW("cuMemcpy: past a block of a host pool", "copies/copy_bytes.cc", kInvalid,
                   [] {
                     Block device;
                     return OfBlock([&](CUdeviceptr block) { return cuMemcpy(device, block, kBytes + 1); });
                   })},
    {HOST_POOL_ROW("cuMemcpyDtoD: a block of a host pool", "copies/copy_bytes.cc", kInvalid,
                   [] {
                     Block device;
                     return OfBlock([&](CUdeviceptr block) { return cuMemcpyDtoD(device, block, 64); });
                   })},
    {HOST_POOL_ROW("cuMemcpyHtoD: to a block of a host pool", "copies/copy_bytes.cc", kInvalid,
                   [] { return OfBlock([](CUdeviceptr block) { return cuMemcpyHtoD(block, Pages(), 64); }); })},
    {HOST_POOL_ROW("cuMemsetD8: a block of a host pool", "calls/set.cc", CUDA_SUCCESS,
                   [] { return OfBlock([](CUdeviceptr block) { return cuMemsetD8(block, 1, kBytes); }); })},
    {HOST_POOL_ROW("cuMemsetD8: past a block of a host pool", "calls/set.cc", kInvalid,
                   [] { return OfBlock([](CUdeviceptr block) { return cuMemsetD8(block, 1, kBytes + 1); }); })},
    {HOST_POOL_ROW("cuMemGetAddressRange: past a block of a host pool", "calls/memory.cc", CUDA_ERROR_NOT_FOUND,
                   [] {
                     return OfBlock([](CUdeviceptr block) {
                       return cuMemGetAddressRange(Out<CUdeviceptr>(), Out<size_t>(), block + kBytes);
                     });
                   })},
    {HOST_POOL_ROW("cuMemPoolExportToShareableHandle: a pool of host memory on no node", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return OfPool(Props(kHost), [](CUmemoryPool pool) {
                       int file;
                       return cuMemPoolExportToShareableHandle(&file, pool, kByFile, 0);
                     });
                   })},
    {HOST_POOL_ROW("cuMemPoolExportPointer: within a block of a host pool", "calls/share.cc", kInvalid,
                   [] {
                     return OfBlock(
                         [](CUdeviceptr block) { return cuMemPoolExportPointer(Out<CUmemPoolPtrExportData>(), block + 8); });
                   })},
    {HOST_POOL_ROW("cuMemImportFromShareableHandle: a pool of host memory", "calls/share.cc", kNot,
                   [] {
                     return OfPool(Props(kNode, kByFile), [](CUmemoryPool pool) {
                       int file = -1;
                       CHECK_DRIVER(cuMemPoolExportToShareableHandle(&file, pool, kByFile, 0));
                       CUmemGenericAllocationHandle memory;
                       const CUresult result =
                           cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(static_cast<intptr_t>(file)), kByFile);
                       if (result == CUDA_SUCCESS) cuMemRelease(memory);
                       close(file);
                       return result;
                     });
                   })},
    {HOST_POOL_ROW("cuMemAllocFromPoolAsync: host memory of another process", "memory/host_pools.cc", kInvalid,
                   [] {
                     return OfImported([](CUmemoryPool pool, const CUmemPoolPtrExportData&) {
                       Stream s;
                       return cuMemAllocFromPoolAsync(Out<CUdeviceptr>(), 64, pool, s);
                     });
                   })},
    {HOST_POOL_ROW("cuMemPoolGetAttribute: host memory of another process", "memory/host_pool_calls.cc", kInvalid,
                   [] {
                     return OfImported([](CUmemoryPool pool, const CUmemPoolPtrExportData&) {
                       return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, Out<cuuint64_t>());
                     });
                   })},
    {HOST_POOL_ROW("cuMemPoolImportPointer: host memory that is open", "memory/host_pools.cc", CUDA_ERROR_ALREADY_MAPPED,
                   [] {
                     return OfImported([](CUmemoryPool pool, CUmemPoolPtrExportData data) {
                       CUdeviceptr block;
                       CHECK_DRIVER(cuMemPoolImportPointer(&block, pool, &data));
                       const CUresult result = cuMemPoolImportPointer(Out<CUdeviceptr>(), pool, &data);
                       cuMemFree(block);
                       return result;
                     });
                   })},
};
#undef HOST_POOL_ROW

}  // namespace

std::span<const Row> HostPoolRows() { return kRows; }

}  // namespace refusals
