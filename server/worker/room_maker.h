// Room in the devices' memory that others can do without: workers that wait for a session, and sessions that are over while their
// process has not ended yet. Natively neither is there once a program has ended, so no allocation is refused for their sake.
#pragma once

#include <cstdint>

#include "server/gate/gpu_uuid.h"

namespace tessera {

// Any thread. Both wait some seconds at most.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;
  // Has such processes ended, and waits until they have. False when there was none: at once.
  virtual bool MakeRoom() = 0;
  // Waits until the sessions that are over by now have ended. Returns how many bytes of `gpu` MakeRoom() would free, as far as
  // that is known.
  virtual uint64_t AwaitEnds(const GpuUuid& gpu) = 0;
  // Whether the session may have so many bytes of host memory, all its segments together, beside what its holder has and what is
  // kept for others. Fewer than before it always may.
  virtual bool HoldHost(uint64_t bytes) { return true; }
};

}  // namespace tessera
