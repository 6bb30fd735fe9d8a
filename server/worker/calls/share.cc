// Shareable handles of physical allocations and pools, and pointers into shared pools.

#include <cuda.h>

#include <memory>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "protocol/base/unique_fd.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/sharing/token_field.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Shares what `export_to` has the driver write a descriptor for. `memory_of` returns what is counted for it.
template <typename Reply, typename MemoryOf, typename Export>
void ShareExported(CallContext& call, ShareKind kind, uint64_t bytes, const MemoryOf& memory_of, const Export& export_to) {
  if (!call.ok()) return call.Finish(call.error());
  const std::shared_ptr<void> memory = memory_of();
  int fd = -1;
  CUresult result = export_to(&fd);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  const UniqueFd exported(fd);
  // What is not counted is not shared. Meanwhile the executor may have released the handle, and the driver have used its number
  // for other memory.
  if (memory == nullptr || memory_of() != memory) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  ShareToken token;
  result = call.worker().parts().sharing().ShareDescriptor(kind, exported.get(), bytes, memory, &token);
  Reply reply;
  reply.token = token.bytes;
  call.Finish(result, reply);
}

Charges& Held(CallContext& call) { return call.worker().parts().memory().charges(); }

void* Descriptor(const Share& share) { return reinterpret_cast<void*>(static_cast<intptr_t>(share.fd.get())); }

}  // namespace

void Do_cuMemExportToShareableHandle(CallContext& call, const cuMemExportToShareableHandleRequest& request) {
  const auto allocation = call.Use<CUmemGenericAllocationHandle>(request.handle);
  const auto memory_of = [&] { return Held(call).physical().Of(request.handle); };
  const PhysicalMemory::Shared memory = memory_of();
  const uint64_t bytes = memory == nullptr ? 0 : memory->bytes();
  ShareExported<cuMemExportToShareableHandleReply>(call, ShareKind::kAllocation, bytes, memory_of, [&](int* fd) {
    return call.driver().cuMemExportToShareableHandle(fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, request.flags);
  });
}

void Do_cuMemImportFromShareableHandle(CallContext& call, const cuMemImportFromShareableHandleRequest& request) {
  ShareToken token;
  if (!ReadToken(request.token, &token)) return call.Malformed();
  Share share;
  CUresult result = call.worker().parts().sharing().Fetch(token, ShareKind::kAllocation, CUDA_ERROR_UNKNOWN, &share);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  CUmemGenericAllocationHandle allocation = 0;
  result = call.driver().cuMemImportFromShareableHandle(&allocation, Descriptor(share), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  cuMemImportFromShareableHandleReply reply;
  CUmemAllocationProp properties{};
  if (result != CUDA_SUCCESS) return call.Finish(result);
  result = call.driver().cuMemGetAllocationPropertiesFromHandle(&properties, allocation);
  if (result != CUDA_SUCCESS) {
    call.driver().cuMemRelease(allocation);
    return call.Finish(result);
  }
  reply.device = properties.location.id;
  if (const auto own = std::static_pointer_cast<HeldMemory>(call.worker().parts().sharing().MemoryOf(token))) {
    // The session's own memory, which is counted already.
    Held(call).physical().Made(request.handle, own);
    call.New(request.handle, allocation);
    return call.Finish(result, reply);
  }
  // It counts for who imports it as well: the memory stays as long as one of them has it.
  const uint64_t bytes = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? share.facts.allocation_bytes : 0;
  if (!Held(call).ledger().Take(reply.device, MemoryKind::kImports, bytes)) {
    call.driver().cuMemRelease(allocation);
    return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  }
  Held(call).physical().Made(request.handle, HeldMemory(Held(call).ledger(), reply.device, MemoryKind::kImports, bytes));
  call.New(request.handle, allocation);
  call.Finish(result, reply);
}

void Do_cuMemPoolExportToShareableHandle(CallContext& call, const cuMemPoolExportToShareableHandleRequest& request) {
  const auto pool = call.Use<CUmemoryPool>(request.pool);
  const auto memory_of = [&] { return Held(call).pools().Of(pool); };
  ShareExported<cuMemPoolExportToShareableHandleReply>(call, ShareKind::kPool, 0, memory_of, [&](int* fd) {
    return call.driver().cuMemPoolExportToShareableHandle(fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, request.flags);
  });
}

void Do_cuMemPoolImportFromShareableHandle(CallContext& call, const cuMemPoolImportFromShareableHandleRequest& request) {
  ShareToken token;
  if (!ReadToken(request.token, &token)) return call.Malformed();
  Share share;
  CUresult result = call.worker().parts().sharing().Fetch(token, ShareKind::kPool, CUDA_ERROR_UNKNOWN, &share);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  CUmemoryPool pool = nullptr;
  result = call.driver().cuMemPoolImportFromShareableHandle(&pool, Descriptor(share), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                            request.flags);
  if (result == CUDA_SUCCESS) call.New(request.pool, pool);
  call.Finish(result);
}

// The data name memory to whoever has imported its pool, and nothing else.
void Do_cuMemPoolImportPointer(CallContext& call, const cuMemPoolImportPointerRequest& request) {
  const auto pool = call.Use<CUmemoryPool>(request.pool);
  if (!call.ok()) return call.Finish(call.error());
  CUmemPoolPtrExportData data = request.data;
  CUdeviceptr address = 0;
  CUresult result = call.driver().cuMemPoolImportPointer(&address, pool, &data);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  result = call.driver().cuMemGetAddressRange_v2(&base, &bytes, address);
  if (result != CUDA_SUCCESS) call.driver().cuMemFree_v2(address);
  cuMemPoolImportPointerReply reply;
  reply.address = address;
  reply.bytes = result == CUDA_SUCCESS ? base + bytes - address : 0;
  if (result == CUDA_SUCCESS && !Held(call).pools().Imported(address, bytes)) {
    call.driver().cuMemFree_v2(address);
    return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  }
  if (result == CUDA_SUCCESS) call.worker().parts().memory().NoteDriverMemory(address);
  call.Finish(result, reply);
}

void Do_tesseraShareEnded(CallContext& call, const tesseraShareEndedRequest& request) {
  ShareToken token;
  if (!ReadToken(request.token, &token)) return call.Malformed();
  call.worker().parts().sharing().Revoke(token);
  call.Finish(CUDA_SUCCESS);
}

}  // namespace tessera
