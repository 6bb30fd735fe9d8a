// Device memory: allocation, free, what is left.

#include <cuda.h>

#include <algorithm>
#include <utility>

#include "generated/driver_table.h"
#include "generated/messages/service.h"
#include "generated/server/memory.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/gate/gate_rows.h"
#include "server/worker/helper_pool.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/room_maker.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Rows of cuMemAllocPitch start at multiples of this (measured: H200, every element size).
constexpr uint64_t kPitchBytes = 512;

CUresult Allocate(CallContext& call, uint64_t bytes, CUdeviceptr* address) {
  CUdevice device = 0;
  if (const CUresult result = call.driver().cuCtxGetDevice(&device); result != CUDA_SUCCESS) return result;
  uint64_t base = 0;
  DeviceHeap& heap = call.worker().parts().memory().heap();
  const CUresult result =
      WithRoom(call.worker(), device, bytes, [&] { return heap.Allocate(call.holder().value(), device, bytes, &base); });
  *address = base;
  return result;
}

// What the driver says, and how much more is free. What a program that has ended held is free natively, and so is what processes
// hold that wait for programs: it is given back before an allocation fails.
CUresult Look(CallContext& call, CUdevice device, cuMemGetInfo_v2Reply* reply, uint64_t* spare) {
  RoomMaker* const rooms = call.worker().rooms();
  if (rooms == nullptr) return call.driver().cuMemGetInfo_v2(&reply->free, &reply->total);
  const GpuUuid gpu = GpuUuidOf(call.driver(), device);
  *spare = rooms->AwaitEnds(gpu);
  // Such a process may begin or end at this moment: then both are asked again.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (const CUresult result = call.driver().cuMemGetInfo_v2(&reply->free, &reply->total); result != CUDA_SUCCESS) return result;
    const uint64_t before = *spare;
    *spare = rooms->AwaitEnds(gpu);
    if (*spare == before) break;
  }
  return CUDA_SUCCESS;
}

}  // namespace

void Do_cuMemGetInfo_v2(CallContext& call, const cuMemGetInfo_v2Request&) {
  cuMemGetInfo_v2Reply reply;
  CUdevice device = 0;
  CUresult result = call.driver().cuCtxGetDevice(&device);
  SessionMemory& memory = call.worker().parts().memory();
  // What was freed while a stream captured.
  if (result == CUDA_SUCCESS) memory.ReclaimIfIdle();
  if (result == CUDA_SUCCESS) result = call.worker().SetContext(call.header());
  uint64_t spare = 0;
  if (result == CUDA_SUCCESS) result = Look(call, device, &reply, &spare);
  if (result == CUDA_SUCCESS) {
    MemoryLedger& ledger = memory.charges().ledger();
    uint64_t left = reply.free + std::min<uint64_t>(spare, reply.total);
    if (const uint64_t limit = ledger.LimitBytes(device); limit != 0) {
      memory.charges().Measure(device);
      reply.total = std::min<size_t>(reply.total, limit);
      left = ledger.LeftBytes(device);
    }
    // What the heap keeps for reuse is free memory: it is given back before an allocation fails.
    reply.free = std::min<size_t>(reply.total, left + memory.heap().CachedBytes(device));
  }
  call.Finish(result, reply);
}

void Do_cuMemAlloc_v2(CallContext& call, const cuMemAlloc_v2Request& request) {
  cuMemAlloc_v2Reply reply;
  const CUresult result = Allocate(call, request.bytesize, &reply.dptr);
  call.Finish(result, reply);
}

void Do_cuMemAllocPitch_v2(CallContext& call, const cuMemAllocPitch_v2Request& request) {
  cuMemAllocPitch_v2Reply reply;
  if (request.WidthInBytes == 0 || request.Height == 0) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  if (request.WidthInBytes > UINT64_MAX - kPitchBytes) return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  reply.pPitch = (request.WidthInBytes + kPitchBytes - 1) & ~(kPitchBytes - 1);
  size_t bytes = 0;
  if (__builtin_mul_overflow(reply.pPitch, request.Height, &bytes)) return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  const CUresult result = Allocate(call, bytes, &reply.dptr);
  call.Finish(result, reply);
}

void Do_cuMemFree_v2(CallContext& call, const cuMemFree_v2Request& request) {
  Worker& worker = call.worker();
  SessionMemory& memory = worker.parts().memory();
  const uint64_t address = request.dptr;
  if (memory.heap().BeginFree(address) == CUDA_SUCCESS) {
    worker.parts().sharing().ForgetBlock(address);
    memory.AfterAllWork([&memory, address, deferred = call.Defer()](bool idle, CUresult result) mutable {
      const auto reclaim = [&memory, address] { memory.heap().EndFree(address); };
      if (idle) {
        reclaim();
      } else {
        memory.Postpone(reclaim);
      }
      deferred.Finish(result);
    });
    return;
  }
  // Stream-ordered and graph memory may be freed this way too; nothing else of the driver's own may.
  if (!memory.ForgetDriverMemory(address) && !memory.IsGraphMemory(address)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  const HandleId context(call.header().context);
  auto deferred = call.Defer();
  PoolCharges& pools = memory.charges().pools();
  PoolCharges::Freeing freeing = pools.BeginFree(address);
  const bool taken = worker.helpers().Run([&worker, &pools, address, freeing, context, deferred]() mutable {
    CUresult result = worker.SetContext(context);
    if (result == CUDA_SUCCESS) result = worker.driver().cuMemFree_v2(address);
    if (freeing != nullptr && result == CUDA_SUCCESS) pools.EndFree(std::exchange(freeing, nullptr));
    if (freeing != nullptr) pools.UndoFree(address, std::move(freeing));
    deferred.Finish(result);
  });
  if (taken) return;
  if (freeing != nullptr) pools.UndoFree(address, freeing);
  deferred.Finish(CUDA_ERROR_OUT_OF_MEMORY);
}

void Do_tesseraMemoryAt(CallContext& call, const tesseraMemoryAtRequest& request) {
  const auto range = call.worker().parts().memory().DriverAllocationAt(request.address);
  if (!range) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  tesseraMemoryAtReply reply;
  reply.base = range->base;
  reply.bytes = range->bytes;
  call.Finish(CUDA_SUCCESS, reply);
}

}  // namespace tessera
