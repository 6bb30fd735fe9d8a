#include "server/worker/memory/with_room.h"

#include "generated/driver_table.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/room_maker.h"
#include "server/worker/worker.h"

namespace tessera {

bool ReleaseOwnReserves(Worker& worker, CUdevice device) { return worker.parts().memory().heap().ReleaseCached(device) != 0; }

bool AskOthersForRoom(Worker& worker, CUdevice device, uint64_t bytes) {
  size_t total = 0;
  if (worker.rooms() == nullptr || worker.driver().cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS || bytes > total)
    return false;
  return worker.rooms()->MakeRoom();
}

CUdevice CurrentDevice(CallContext& call) {
  CUdevice device = -1;
  return call.driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

Worker& WorkerOf(CallContext& call) { return call.worker(); }

}  // namespace tessera
