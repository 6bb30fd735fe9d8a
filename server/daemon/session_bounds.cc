#include "server/daemon/session_bounds.h"

#include <cstdint>

#include "protocol/base/host_memory.h"

namespace tessera {
namespace {

constexpr uint32_t kReserve = 8;
constexpr size_t kSharesReserve = 2 * size_t{4096};

// Whether anybody but the server's own user and root may come.
bool ServesOthers(const Options& options) {
  return options.owner_fd < 0 && (!options.gateway_urls.empty() || options.socket.mode != SocketAccess{}.mode);
}

}  // namespace

FairBound::Limits SessionLimits(const Options& options) {
  return {.total = options.sessions_max, .reserve = ServesOthers(options) ? options.sessions_max / kReserve : 0};
}

size_t SharesReserve(const Options& options) { return ServesOthers(options) ? kSharesReserve : 0; }

FairBound::Limits HostMemoryLimits(const Options& options) {
  uint64_t total = options.host_memory_mib << 20;
  if (total == 0) total = HostMemoryTotal() / 8 * 7;
  if (total == 0) total = UINT64_MAX;  // nobody knows
  return {.total = total, .reserve = ServesOthers(options) ? total / 4 : 0, .unit = uint64_t{64} << 20};
}

}  // namespace tessera
