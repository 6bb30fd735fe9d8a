#include "server/daemon/warm_bounds.h"

#include <algorithm>

namespace tessera {
namespace {

size_t WorkersIn(uint64_t free_bytes, uint64_t each) { return free_bytes == 0 ? kWarmMax : free_bytes / kWarmShare / each; }

}  // namespace

size_t WarmWorkersWithin(const WarmBounds& bounds) {
  const size_t memory =
      std::min(WorkersIn(bounds.device_free_bytes, kWarmDeviceBytes), WorkersIn(bounds.host_free_bytes, kWarmHostBytes));
  const size_t within = std::clamp<size_t>(memory, 1, kWarmMax);
  return bounds.users ? std::min(within, *bounds.users / 2) : within;
}

}  // namespace tessera
