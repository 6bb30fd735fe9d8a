#include "server/worker/memory/with_room.h"

#include "generated/driver_table.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/room_maker.h"
#include "server/worker/worker.h"

namespace tessera {

bool ReleaseOwnReserves(Worker& worker, CUdevice device) {
  SessionMemory& memory = worker.parts().memory();
  const bool cached = memory.heap().ReleaseCached(device) != 0;
  return memory.charges().Trim(device) || cached;
}

bool AskOthersForRoom(Worker& worker, CUdevice device, uint64_t bytes) {
  size_t total = 0;
  MemoryLedger& ledger = worker.parts().memory().charges().ledger();
  if (bytes > ledger.LeftBytes(device)) {
    // No other worker can give what the session's own limit refused, except workers of its vGPU whose programs have ended.
    if (worker.rooms() == nullptr) return false;
    worker.rooms()->AwaitEnds(GpuUuid{});
    return bytes <= ledger.LeftBytes(device);
  }
  if (worker.rooms() == nullptr || worker.driver().cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS || bytes > total)
    return false;
  // A program of the vGPU may have ended between the refusal and the question above.
  return worker.rooms()->MakeRoom() || ledger.limited(device);
}

CUdevice CurrentDevice(CallContext& call) {
  CUdevice device = -1;
  return call.driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

Worker& WorkerOf(CallContext& call) { return call.worker(); }

}  // namespace tessera
