// Reads the state of devices (memory in use, load, temperature ...) for queries that ask for it. It does so in a process of its
// own, since the libraries may take long, or hang, when a device is faulty.
//
// The daemon starts the process at the first such query. It hands over each client's connection with the rest of the report; the
// process answers and closes. For the audit the daemon itself asks once a second. A request is a datagram on the socket between
// the two, so neither waits for the other.
#pragma once

#include <sys/types.h>

#include <string>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/daemon/readings/monitor_request.h"

namespace tessera {

// The daemon's end. One thread.
class Monitor {
 public:
  // `logs` outlives it.
  Monitor(std::string log_word, ChildLogs& logs) : log_word_(std::move(log_word)), logs_(logs) {}

  // Hands on a client's connection (or, for figures, a socket of the daemon). Starts the process if there is none. After a
  // failure the client has no answer yet.
  Status Answer(const MonitorRequest& request, int connection);
  // The process ends when it has answered; this does not wait for that.
  void Close() { socket_.reset(); }

 private:
  Status Start();

  const std::string log_word_;
  ChildLogs& logs_;
  UniqueFd socket_;
};

// The process's side: serves requests from `socket` until the daemon is gone. Returns the exit code.
int RunMonitor(int socket);

}  // namespace tessera
