// What the daemon asks its monitor, on the socket between the two (monitor.h). One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/server_query.h"
#include "server/usage_page.h"

namespace tessera {

struct MonitorRequest {
  // Sessions in one request; the daemon has no more by default, and the rest is left out.
  static constexpr size_t kSessionsMax = 256;
  // One session's worker, and what its emulated devices are used for (zeros when they are not emulated).
  struct Session {
    struct Device {
      uint64_t used_bytes = 0;
      uint64_t busy_ns = 0;
      uint64_t running = 0;
    };
    uint32_t worker_pid = 0;
    uint32_t client_pid = 0;
    std::array<Device, kUsageDevicesMax> devices;
  };

  ServerQuery query;
  ServerReport report;  // without what the query asks for
  std::vector<Session> sessions;

  void Encode(Encoder& out) const;
  static Result<MonitorRequest> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
