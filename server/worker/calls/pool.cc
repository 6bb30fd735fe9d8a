// Memory pools and stream-ordered allocation. The driver chooses these addresses; the client reserves what it is told.

#include <cuda.h>

#include <memory>
#include <utility>

#include "generated/driver_table.h"
#include "generated/server/pool.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/completion.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// What the pool had for the address is not held any more once the stream has come to the free.
void EndWhenDone(CallContext& call, CUstream stream, uint64_t address) {
  PoolCharges& pools = call.worker().parts().memory().charges().pools();
  const auto freeing = std::make_shared<PoolCharges::Freeing>(pools.BeginFree(address));
  if (*freeing == nullptr) return;
  const auto ended = [&pools, freeing] { pools.EndFree(std::move(*freeing)); };
  if (call.worker().completion().WhenDone(stream, [ended](CUresult) { ended(); }) != CUDA_SUCCESS) {
    call.worker().parts().memory().Postpone(ended);
  }
}

// Attributes of a pool are an int or a cuuint64_t (CUDA Driver API, CUmemPool_attribute); both fit a zeroed 64-bit number.
template <typename Reply>
void FinishAllocation(CallContext& call, CUstream stream, CUresult result, CUdeviceptr address, uint64_t bytes) {
  Reply reply;
  reply.dptr = address;
  if (result == CUDA_SUCCESS && address != 0) {
    SessionMemory& memory = call.worker().parts().memory();
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (call.driver().cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE) {
      memory.NoteGraphMemory(Range{address, bytes});
    } else {
      memory.NoteDriverMemory(address);
    }
  }
  call.Finish(result, reply);
}

// The result of `allocate`, out of `pool` (null: the current one). Memory of a graph that is being captured is counted when that
// is launched.
template <typename Allocate>
CUresult AllocateCharged(CallContext& call, CUmemoryPool pool, uint64_t bytes, CUstream stream, CUdeviceptr* address,
                         const Allocate& allocate) {
  Charges& charges = call.worker().parts().memory().charges();
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool counts = charges.ledger().any_limit() && call.driver().cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS &&
                      capture == CU_STREAM_CAPTURE_STATUS_NONE;
  if (!counts) return WithRoom(call, bytes, allocate);
  const CUdevice device = CurrentDevice(call);
  return WithRoom(call, bytes, [&] { return charges.pools().Allocate(device, pool, bytes, stream, address, allocate); });
}

}  // namespace

void Do_cuMemPoolCreate(CallContext& call, const cuMemPoolCreateRequest& request) {
  if (call.driver().cuMemPoolCreate == nullptr) return call.Finish(MissingEntry("cuMemPoolCreate"));
  CUmemoryPool pool = nullptr;
  const CUresult result = call.driver().cuMemPoolCreate(&pool, &request.poolProps);
  if (result == CUDA_SUCCESS) {
    const CUmemLocation& location = request.poolProps.location;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      call.worker().parts().memory().charges().pools().Made(pool, location.id);
    }
    call.New(request.pool, pool);
  }
  call.Finish(result);
}

void Do_cuMemPoolSetAttribute(CallContext& call, const cuMemPoolSetAttributeRequest& request) {
  CUmemoryPool pool = call.Use<CUmemoryPool>(request.pool);
  if (!call.ok()) return call.Finish(call.error());
  uint64_t value = request.value;
  call.Finish(call.driver().cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(request.attribute), &value));
}

void Do_cuMemPoolGetAttribute(CallContext& call, const cuMemPoolGetAttributeRequest& request) {
  CUmemoryPool pool = call.Use<CUmemoryPool>(request.pool);
  if (!call.ok()) return call.Finish(call.error());
  cuMemPoolGetAttributeReply reply;
  const CUresult result =
      call.driver().cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(request.attribute), &reply.value);
  call.Finish(result, reply);
}

void Do_cuMemAllocAsync(CallContext& call, const cuMemAllocAsyncRequest& request) {
  CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  CUdeviceptr address = 0;
  const CUresult result = AllocateCharged(call, nullptr, request.bytesize, stream, &address,
                                          [&] { return call.driver().cuMemAllocAsync(&address, request.bytesize, stream); });
  FinishAllocation<cuMemAllocAsyncReply>(call, stream, result, address, request.bytesize);
}

void Do_cuMemAllocFromPoolAsync(CallContext& call, const cuMemAllocFromPoolAsyncRequest& request) {
  CUmemoryPool pool = call.Use<CUmemoryPool>(request.pool);
  CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  CUdeviceptr address = 0;
  const CUresult result = AllocateCharged(call, pool, request.bytesize, stream, &address, [&] {
    return call.driver().cuMemAllocFromPoolAsync(&address, request.bytesize, pool, stream);
  });
  FinishAllocation<cuMemAllocFromPoolAsyncReply>(call, stream, result, address, request.bytesize);
}

void Do_cuMemFreeAsync(CallContext& call, const cuMemFreeAsyncRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  const uint64_t address = request.dptr;
  if (!memory.heap().OwnsAddress(address)) {
    const CUresult result = call.driver().cuMemFreeAsync(address, stream);
    if (result == CUDA_SUCCESS) {
      memory.ForgetDriverMemory(address);
      call.worker().driver_chores().NoteFrees();
      EndWhenDone(call, stream, address);
    }
    return call.Finish(result);
  }
  // A block of the heap, freed in stream order. A capturing stream cannot free what was not allocated in a graph.
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = call.driver().cuStreamIsCapturing(stream, &capture);
  if (result == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) result = memory.heap().BeginFree(address);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  call.worker().parts().sharing().ForgetBlock(address);
  const auto reclaim = [&memory, address] { memory.heap().EndFree(address); };
  // Other streams may have been ordered before this one by events; they are, since the program says that it may be freed.
  if (call.worker().completion().WhenDone(stream, [reclaim](CUresult) { reclaim(); }) != CUDA_SUCCESS) {
    memory.Postpone(reclaim);
  }
  call.Finish(CUDA_SUCCESS);
}

}  // namespace tessera
