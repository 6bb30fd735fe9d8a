// Reads how the devices are (memory in use, load, temperature ...) for queries that ask for it, in a process of its own:
// the libraries that tell may take long, or hang, when a device is ill.
//
// The daemon starts it at the first such query and hands it each client's connection with everything else the report
// needs; it answers and closes. One request is a datagram on the socket between the two, so neither waits for the other.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/server_query.h"
#include "server/emulator/usage_page.h"

namespace tessera {

struct MonitorRequest {
  // One session's worker, and what its emulated devices are used for (zeros when they are not emulated).
  struct Session {
    struct Device {
      uint64_t used_bytes = 0;
      uint64_t busy_ns = 0;
      uint64_t running = 0;
    };
    uint32_t worker_pid = 0;
    uint32_t client_pid = 0;
    std::array<Device, emulator::kUsageDevicesMax> devices;
  };

  ServerQuery query;
  ServerReport report;  // without what the query asks for
  std::vector<Session> sessions;

  void Encode(Encoder& out) const;
  static Result<MonitorRequest> Decode(std::span<const std::byte> message);
};

// The daemon's end. One thread.
class Monitor {
 public:
  explicit Monitor(std::string log_word) : log_word_(std::move(log_word)) {}

  // Hands a client's connection on, starting the process when there is none. On failure the client has not been answered.
  Status Answer(const MonitorRequest& request, int connection);

 private:
  Status Start();

  const std::string log_word_;
  UniqueFd socket_;
};

// The process's side: serves requests from `socket` until the daemon is gone. Returns the exit code.
int RunMonitor(int socket);

}  // namespace tessera
