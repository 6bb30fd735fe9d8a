// Allocations are tried again before a program is told that the device has no memory: once this session's own reserves are given
// back, and once others have given back what nobody needs (room_maker.h).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

class CallContext;
class Worker;

// Whether the heap's cache held memory of `device`, or pools and graphs of a vGPU with a limit did, which is now free.
bool ReleaseOwnReserves(Worker& worker, CUdevice device);
// Whether others had something, which is now free. Not asked when the device never has `bytes`.
bool AskOthersForRoom(Worker& worker, CUdevice device, uint64_t bytes);
// That of the current context; -1: none.
CUdevice CurrentDevice(CallContext& call);
Worker& WorkerOf(CallContext& call);

// The result of `allocate`, which asks the driver for `bytes` (0: not known) on `device` and has done nothing when it finds none.
// May block for some seconds then.
template <typename Allocate>
CUresult WithRoom(Worker& worker, CUdevice device, uint64_t bytes, const Allocate& allocate) {
  CUresult result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && ReleaseOwnReserves(worker, device)) result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && AskOthersForRoom(worker, device, bytes)) result = allocate();
  return result;
}

// The result of `take`, which the session's own limit may refuse: once more without what its heap and pools keep for reuse, which
// is in nobody's way.
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
