// Shareable handles of physical allocations and pools: a descriptor of this process that carries a token of the server's.

#include <cuda.h>

#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_allocation_calls.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/session/client.h"
#include "client-stub/sharing/share_token.h"
#include "generated/client/pool.h"
#include "generated/client/virtual_memory.h"
#include "generated/messages/service.h"

namespace tessera {
namespace {

constexpr CallInfo kEnded{"tesseraShareEnded",
                          tesseraShareEndedRequest::kId,
                          CallInfo::Mode::kAsync,
                          CallInfo::Context::kNone,
                          CallInfo::Capture::kLegal,
                          false,
                          nullptr};

// No allocation is made for other types of handles: the devices say that they have none.
CUresult CheckType(CUmemAllocationHandleType type) {
  return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// As driver 580: that it cannot import a type is another answer than that there is no such type.
CUresult CheckImport(CUmemAllocationHandleType type) {
  return type == CU_MEM_HANDLE_TYPE_NONE || CheckType(type) == CUDA_SUCCESS ? CheckType(type) : CUDA_ERROR_NOT_SUPPORTED;
}

// Sends the request and wraps the token of its reply. `out` receives an int, as the API says.
template <typename Reply, typename Request>
CUresult Export(Call& call, void* out, const Request& request) {
  TellClosedDescriptors();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  TokenBytes token;
  if (!TokenOf(reply.token, &token)) return call.MalformedReply();
  const int fd = Descriptors().Make(token);
  if (fd < 0) {
    Call end(kEnded, false);
    end.MoveTo(call);
    tesseraShareEndedRequest ended;
    ended.token = token;
    if (end.ok()) end.Async(ended);
    return call.Fail(CUDA_ERROR_OPERATING_SYSTEM);
  }
  std::memcpy(out, &fd, sizeof(fd));
  return CUDA_SUCCESS;
}

// The token behind what the application passes as a handle, or the call fails.
bool ReadHandle(Call& call, void* handle, TokenBytes* token) {
  const auto read = SharedDescriptors::Read(static_cast<int>(reinterpret_cast<intptr_t>(handle)));
  if (!read) return call.Fail(CUDA_ERROR_UNKNOWN), false;  // as driver 580 for a descriptor of something else
  *token = *read;
  return true;
}

}  // namespace

void TellClosedDescriptors() {
  for (const TokenBytes& token : Descriptors().TakeClosed()) {
    for (Session* session : Client::Get().sessions()) {  // one of them knows it
      Call call(kEnded, false);
      call.MoveTo(*session);
      tesseraShareEndedRequest request;
      request.token = token;
      if (call.ok()) call.Async(request);
    }
  }
}

CUresult Custom_cuMemExportToShareableHandle(Call& call, void* shareableHandle, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType handleType, unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (shareableHandle == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemExportToShareableHandleRequest request;
  request.handle = call.Use(HandleKind::kMemoryAllocation, uint64_t{handle});
  if (!call.ok()) return call.result();
  if (const CUresult type = CheckType(handleType); type != CUDA_SUCCESS) return call.Fail(type);
  if (Allocations(call).Has(request.handle)) return ExportHostAllocation(call, shareableHandle, request.handle);
  return Export<cuMemExportToShareableHandleReply>(call, shareableHandle, request);
}

CUresult Custom_cuMemImportFromShareableHandle(Call& call, CUmemGenericAllocationHandle* handle, void* osHandle,
                                               CUmemAllocationHandleType shHandleType) {
  if (!call.ok()) return call.result();
  if (handle == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (const CUresult type = CheckImport(shHandleType); type != CUDA_SUCCESS) return call.Fail(type);
  if (auto file = HostFile::Open(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)))) {
    if (file->kind() != HostFile::Kind::kAllocation) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);  // measured: driver 580
    return ImportHostAllocation(call, handle, std::move(*file));
  }
  TokenBytes token;
  if (!ReadHandle(call, osHandle, &token)) return call.result();
  cuMemImportFromShareableHandleRequest request;
  request.token = token;
  request.handle = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  cuMemImportFromShareableHandleReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  call.session().memory().NoteAllocation(request.handle,
                                         {call.Ordinal(reply.device), CU_MEM_HANDLE_TYPE_NONE});  // not to be exported again
  *handle = request.handle.value();
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemPoolExportToShareableHandle(Call& call, void* handle_out, CUmemoryPool pool,
                                                 CUmemAllocationHandleType handleType, unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (handle_out == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemPoolExportToShareableHandleRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (const CUresult type = CheckType(handleType); type != CUDA_SUCCESS) return call.Fail(type);
  if (Pools(call).Has(request.pool)) return ExportHostPool(call, handle_out, request.pool);
  return Export<cuMemPoolExportToShareableHandleReply>(call, handle_out, request);
}

CUresult Custom_cuMemPoolImportFromShareableHandle(Call& call, CUmemoryPool* pool_out, void* handle,
                                                   CUmemAllocationHandleType handleType, unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (pool_out == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (const CUresult type = CheckImport(handleType); type != CUDA_SUCCESS) return call.Fail(type);
  if (auto file = HostFile::Open(static_cast<int>(reinterpret_cast<intptr_t>(handle)))) {
    if (file->kind() != HostFile::Kind::kPool) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);  // measured: driver 580
    return ImportHostPool(call, pool_out, std::move(*file));
  }
  TokenBytes token;
  if (!ReadHandle(call, handle, &token)) return call.result();
  cuMemPoolImportFromShareableHandleRequest request;
  request.token = token;
  request.pool = call.Mint(HandleKind::kMemoryPool);
  if (!call.ok()) return call.result();
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  *pool_out = reinterpret_cast<CUmemoryPool>(request.pool.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemPoolExportPointer(Call& call, CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  if (!call.ok()) return call.result();
  if (shareData_out == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ClientMemory& memory = call.session().memory();
  if (memory.host().InWindow(ptr)) {
    PoolPointer pointer;
    if (!memory.pools().Locate(ptr, &pointer)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    std::memcpy(shareData_out, &pointer, sizeof(pointer));
    return CUDA_SUCCESS;
  }
  cuMemPoolExportPointerRequest request;
  request.ptr = ptr;
  cuMemPoolExportPointerReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *shareData_out = reply.shareData_out;
  return result;
}

// The driver chooses where it maps another process' pool memory; a place that this process uses itself cannot be taken.
CUresult Custom_cuMemPoolImportPointer(Call& call, CUdeviceptr* ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData* shareData) {
  if (!call.ok()) return call.result();
  if (ptr_out == nullptr || shareData == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemPoolImportPointerRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (Pools(call).Has(request.pool)) {
    PoolPointer pointer;
    std::memcpy(static_cast<void*>(&pointer), shareData, sizeof(pointer));
    return Pools(call).OpenPointer(call, request.pool, pointer, ptr_out);
  }
  request.data = *shareData;
  cuMemPoolImportPointerReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  DeviceAllocation allocation;
  allocation.range = Range{reply.address, reply.bytes};
  allocation.kind = DeviceAllocation::Kind::kPool;
  if (const Context* context = call.current_context()) allocation.device = context->device;
  allocation.pool = request.pool;
  if (!AdoptDriverRange(call.session(), allocation)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  *ptr_out = reply.address;
  return CUDA_SUCCESS;
}

}  // namespace tessera
