// Tries allocations again before a program is told that the device has no memory: once after this session's own reserves are
// given back, and once after others have given back what nobody needs (room_maker.h).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

class CallContext;
class Worker;

// Gives back what the heap caches of `device`, and what pools and graphs keep if its vGPU has a limit. True: some memory became
// free.
bool ReleaseOwnReserves(Worker& worker, CUdevice device);
// Asks others for what nobody needs, and may wait some seconds. True: memory became free or may have, so a new try is worth it.
// Others are not asked when the device never has `bytes`.
bool AskOthersForRoom(Worker& worker, CUdevice device, uint64_t bytes);
// Returns the device of the current context; -1: there is none.
CUdevice CurrentDevice(CallContext& call);
Worker& WorkerOf(CallContext& call);

// Returns the result of `allocate`, which asks the driver for `bytes` (0: not known) on `device` and has no effect when it fails.
// May block for some seconds when memory is short.
template <typename Allocate>
CUresult WithRoom(Worker& worker, CUdevice device, uint64_t bytes, const Allocate& allocate) {
  CUresult result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && ReleaseOwnReserves(worker, device)) result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && AskOthersForRoom(worker, device, bytes)) result = allocate();
  return result;
}

// Returns the result of `take`, which the session's own limit may refuse. After a refusal this tries once more without what the
// session's heap and pools keep for reuse, which nobody needs. Others are not asked.
template <typename Take>
CUresult WithoutReserves(CallContext& call, const Take& take) {
  const CUresult result = take();
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !ReleaseOwnReserves(WorkerOf(call), CurrentDevice(call))) return result;
  return take();
}

// WithRoom() on the device of the current context.
template <typename Allocate>
CUresult WithRoom(CallContext& call, uint64_t bytes, const Allocate& allocate) {
  const CUresult result = allocate();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  const CUdevice device = CurrentDevice(call);
  return device < 0 ? result : WithRoom(WorkerOf(call), device, bytes, allocate);
}

}  // namespace tessera
