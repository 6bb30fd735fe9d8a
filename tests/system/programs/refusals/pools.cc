// Memory pools, their handles for other processes, and pointers of theirs.
#include <fcntl.h>
#include <unistd.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

CUmemPoolProps Props(CUmemLocationType location = CU_MEM_LOCATION_TYPE_DEVICE, int id = 0) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {location, id};
  return props;
}

CUresult Create(CUmemPoolProps props) {
  CUmemoryPool pool;
  const CUresult result = cuMemPoolCreate(&pool, &props);
  if (result == CUDA_SUCCESS) cuMemPoolDestroy(pool);
  return result;
}

struct Pool {
  explicit Pool(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
    CUmemPoolProps props = Props();
    props.handleTypes = types;
    CHECK_DRIVER(cuMemPoolCreate(&it, &props));
  }
  ~Pool() { cuMemPoolDestroy(it); }
  operator CUmemoryPool() const { return it; }
  CUmemoryPool it = nullptr;
};

CUresult Export(CUmemoryPool pool, CUmemAllocationHandleType type) {
  int descriptor = -1;
  const CUresult result = cuMemPoolExportToShareableHandle(&descriptor, pool, type, 0);
  if (result == CUDA_SUCCESS) close(descriptor);
  return result;
}

CUresult ExportPointer(CUdeviceptr address) {
  CUmemPoolPtrExportData data;
  return cuMemPoolExportPointer(&data, address);
}

CUresult Allow(CUmemoryPool pool, CUmemAccess_flags flags, int device = 0) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
  return cuMemPoolSetAccess(pool, &access, 1);
}

CUresult AllocateFrom(CUmemoryPool pool) {
  Stream s;
  CUdeviceptr p;
  const CUresult result = cuMemAllocFromPoolAsync(&p, 64, pool, s);
  if (result == CUDA_SUCCESS) cuMemFreeAsync(p, s);
  return result;
}

const Row kRows[] = {
    {"cuMemPoolCreate: managed", "memory/host_pool_calls.cc", CUDA_SUCCESS,
     [] {
       auto props = Props();
       props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
       return Create(props);
     },
     kNeedsGpu, CUDA_ERROR_NOT_SUPPORTED, "README.md"},
    {"cuMemPoolCreate: device that does not exist", "server", kInvalid,
     [] { return Create(Props(CU_MEM_LOCATION_TYPE_DEVICE, 99)); }},
    {"cuMemPoolDestroy: the default pool", "server", kInvalid, [] { return cuMemPoolDestroy(DefaultPool()); }},
    {"cuMemPoolDestroy: a second time", "call/call.cc", kInvalid, [] { return cuMemPoolDestroy(Gone<Pool>()); }, kDangerous},
    {"cuMemAllocFromPoolAsync: destroyed pool", "call/call.cc", kInvalid, [] { return AllocateFrom(Gone<Pool>()); }, kDangerous},
    {"cuMemAllocFromPoolAsync: null pool", "call/call.cc", kInvalid, [] { return AllocateFrom(nullptr); }},
    {"cuMemPoolSetAttribute: attribute that is only read", "server", kInvalid,
     [] {
       cuuint64_t v = 1;
       return cuMemPoolSetAttribute(DefaultPool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v);
     }},
    {"cuMemPoolSetAttribute: unknown attribute", "calls/pool.cc", kInvalid,
     [] {
       cuuint64_t v = 1;
       return cuMemPoolSetAttribute(DefaultPool(), static_cast<CUmemPool_attribute>(99), &v);
     }},
    {"cuMemPoolSetAccess: none for its own device", "server", CUDA_ERROR_INVALID_DEVICE,
     [] { return Allow(Pool(), CU_MEM_ACCESS_FLAGS_PROT_NONE); }},
    {"cuMemPoolSetAccess: device that does not exist", "server", CUDA_ERROR_INVALID_DEVICE,
     [] { return Allow(Pool(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 99); }},
    {"cuMemPoolExportToShareableHandle: type that was not asked for", "server", kInvalid,
     [] { return Export(Pool(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); }},
    {"cuMemPoolExportToShareableHandle: the default pool", "server", kInvalid,
     [] { return Export(DefaultPool(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); }},
    {"cuMemPoolExportToShareableHandle: type of another system", "calls/share.cc", kInvalid,
     [] { return Export(Pool(), CU_MEM_HANDLE_TYPE_WIN32); }},
    {"cuMemPoolImportFromShareableHandle: another file", "calls/share.cc", CUDA_ERROR_UNKNOWN,
     [] {
       const int file = open("/dev/null", O_RDONLY);
       CUmemoryPool p;
       const CUresult result = cuMemPoolImportFromShareableHandle(&p, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
       close(file);
       return result;
     }},
    {"cuMemPoolImportFromShareableHandle: type of another system", "calls/share.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] {
       const int file = open("/dev/null", O_RDONLY);
       const CUresult result = cuMemPoolImportFromShareableHandle(
           Out<CUmemoryPool>(), reinterpret_cast<void*>(static_cast<intptr_t>(file)), CU_MEM_HANDLE_TYPE_WIN32, 0);
       close(file);
       return result;
     }},
    {"cuMemPoolExportPointer: a block", "server", kInvalid, [] { return ExportPointer(Block()); }},
    {"cuMemPoolExportPointer: ordinary memory", "server", kInvalid, [] { return ExportPointer(Pages().address()); }},
    {"cuMemPoolExportPointer: of a pool that is not shared", "server", kInvalid, [] { return ExportPointer(Pooled()); }},
    {"cuMemAllocAsync: the legacy stream", "calls/pool.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       const CUresult result = cuMemAllocAsync(&p, 64, nullptr);
       cuMemFreeAsync(p, nullptr);
       return result;
     }},
};

}  // namespace

std::span<const Row> PoolRows() { return kRows; }

}  // namespace refusals
