// Room in the device's memory that others can do without: workers that wait for a session, and sessions that are over but whose
// process has not ended yet. Natively neither would be there, so an allocation is not refused for their sake.
#pragma once

#include <cuda.h>

namespace tessera {

// Any thread.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;
  // Has such processes ended, and waits for that, some seconds at most. False when there was none: at once.
  virtual bool MakeRoom() = 0;
};

// The result of `allocate`, a call of the driver that may be repeated when it had no memory. `rooms` may be null.
template <typename Allocate>
CUresult WithRoom(RoomMaker* rooms, const Allocate& allocate) {
  const CUresult result = allocate();
  if (result != CUDA_ERROR_OUT_OF_MEMORY || rooms == nullptr || !rooms->MakeRoom()) return result;
  return allocate();
}

}  // namespace tessera
