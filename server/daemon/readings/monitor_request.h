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
  // The most sessions in one request, the daemon's default; more are left out.
  static constexpr size_t kSessionsMax = 256;
  // One session's worker, and what it uses emulated devices for (zeros when they are not emulated).
  struct Session {
    uint64_t session = 0;
    uint32_t worker_pid = 0;
    uint32_t client_pid = 0;
    uint64_t shown = 1;  // 0: this asker sees it only in sums
    DeviceUses devices;
  };

  // A vGPU's memory on one device.
  struct Memory {
    uint64_t limit_bytes = 0;  // 0: no limit, so the device's own memory is told
    uint64_t held_bytes = 0;
  };

  bool figures = false;  // ProcessFigures are wanted instead of what the query asks for
  ServerQuery query;
  ServerReport report;  // without what the query asks for
  std::vector<Session> sessions;
  DeviceUses devices;          // of all workers, also waiting ones; the times include ended workers
  std::vector<Memory> memory;  // of the query's vGPUs, by device of the report's snapshot; empty: it names none

  // Replaces the devices' memory by that of vGPUs with a limit.
  void OverlayMemory(ServerReport* report) const;

  // Adds a session's use to the report, as a row of its own or to a sum. Returns the row, which is valid until the next call;
  // null: it went into a sum.
  static ServerReport::Use* AddUse(const Session& session, uint32_t device, uint64_t used_bytes, ServerReport* report);

  void Encode(Encoder& out) const;
  static Result<MonitorRequest> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
