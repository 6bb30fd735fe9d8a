// Pools for several processes. Each allocation of such a pool is a named memory of its own; what another process gets says its
// number and to which pool it belongs.
// Source: CUDA driver API, "Stream Ordered Memory Allocator", interprocess functions.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "protocol/base/unique_fd.h"
#include "server/emulator/driver/memory/device_memory.h"
#include "server/emulator/driver/memory/pool_memory.h"

using namespace tessera::emulator;
using tessera::UniqueFd;

namespace {

// What an exported pool's descriptor contains.
struct PoolContent {
  static constexpr uint64_t kMagic = 0x6c6f6f7061726173;
  uint64_t magic = kMagic;
  uint64_t mark = 0;
  int32_t device = 0;
};

// What CUmemPoolPtrExportData contains.
struct PointerContent {
  static constexpr uint64_t kMagic = 0x7274706f6f706173;
  uint64_t magic = kMagic;
  uint64_t mark = 0;  // of the pool
  uint64_t size_bytes = 0;
  uint64_t memory = 0;  // NamedMemory::number()
};
static_assert(sizeof(PointerContent) <= sizeof(CUmemPoolPtrExportData));

CUresult FindPool(CUmemoryPool handle, PoolPtr* pool) {
  RETURN_ON_ERROR(CheckEntry());
  *pool = GetDriver().pools.Find(handle);
  return *pool != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool handle, CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_IF(handle_out == nullptr || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !pool->shared() ||
                pool->imported(),
            CUDA_ERROR_INVALID_VALUE);
  UniqueFd fd(memfd_create("tessera-emulated-pool", MFD_CLOEXEC));
  PoolContent content;
  content.mark = pool->mark();
  content.device = pool->device();
  RETURN_IF(!fd.valid() || write(fd.get(), &content, sizeof content) != sizeof content, CUDA_ERROR_OPERATING_SYSTEM);
  const int given = fd.release();
  memcpy(handle_out, &given, sizeof given);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pool_out == nullptr || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            CUDA_ERROR_INVALID_VALUE);
  PoolContent content;
  content.magic = 0;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  RETURN_IF(pread(fd, &content, sizeof content, 0) != sizeof content || content.magic != PoolContent::kMagic ||
                GetDriver().device(content.device) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  *pool_out = reinterpret_cast<CUmemoryPool>(
      GetDriver().pools.Add(std::make_shared<Pool>(*GetDriver().device(content.device), content.mark, true)));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(shareData_out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const AllocationPtr allocation = GetDriver().memory.Find(ptr);
  RETURN_IF(
      allocation == nullptr || allocation->kind != MemoryKind::kPool || allocation->base != ptr || allocation->backing == nullptr,
      CUDA_ERROR_INVALID_VALUE);
  const PoolPtr pool = GetDriver().pools.Find(allocation->owner);
  RETURN_IF(pool == nullptr || !pool->shared() || pool->imported(), CUDA_ERROR_INVALID_VALUE);
  PointerContent content;
  content.mark = pool->mark();
  content.size_bytes = allocation->size_bytes;
  content.memory = allocation->backing->number();
  memset(shareData_out, 0, sizeof *shareData_out);
  memcpy(shareData_out, &content, sizeof content);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool handle, CUmemPoolPtrExportData* shareData) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_IF(ptr_out == nullptr || shareData == nullptr || !pool->imported(), CUDA_ERROR_INVALID_VALUE);
  PointerContent content;
  memcpy(static_cast<void*>(&content), shareData, sizeof content);
  RETURN_IF(content.magic != PointerContent::kMagic || content.mark != pool->mark(), CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<NamedMemory> backing = NamedMemory::Open(content.memory, RoundUp(content.size_bytes, kPageBytes));
  RETURN_IF(backing == nullptr, CUDA_ERROR_INVALID_VALUE);
  return AddPoolMemory(pool, reinterpret_cast<uint64_t>(handle), content.size_bytes, std::move(backing), ptr_out);
}

}  // extern "C"
