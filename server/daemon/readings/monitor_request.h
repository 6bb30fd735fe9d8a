// What the daemon asks its monitor, on the socket between the two (monitor.h). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/server_query.h"
#include "server/daemon/readings/device_memory.h"

namespace tessera {

struct MonitorRequest {
  // Sessions in one request; the daemon has no more by default, and the rest is left out.
  static constexpr size_t kSessionsMax = 256;
  // One session's worker, and what it uses emulated devices for (zeros when they are not emulated).
  struct Session {
    uint64_t session = 0;
    uint32_t worker_pid = 0;
    uint32_t client_pid = 0;
    uint64_t shown = 1;  // 0: to this asker only as a part of sums
    DeviceUses devices;
  };

  // What a vGPU has of one device.
  struct Memory {
    uint64_t limit_bytes = 0;  // 0: no limit, so that the device's own memory is told
    uint64_t held_bytes = 0;
  };

  bool figures = false;  // ProcessFigures are wanted, and nothing that the query asks for
  ServerQuery query;
  ServerReport report;  // without what the query asks for
  std::vector<Session> sessions;
  DeviceUses devices;          // of all workers, with those that wait; the time of those that have ended too
  std::vector<Memory> memory;  // of the vGPUs that the query names, by device of the report's snapshot; else empty

  // Puts what vGPUs with a limit have in place of the devices' memory.
  void OverlayMemory(ServerReport* report) const;

  // Puts a session's use where the report has it: among the uses, or in a sum. The result is null for a sum, and else stays
  // there until the next call.
  static ServerReport::Use* AddUse(const Session& session, uint32_t device, uint64_t used_bytes, ServerReport* report);

  void Encode(Encoder& out) const;
  static Result<MonitorRequest> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
