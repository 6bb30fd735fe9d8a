// Reads how the devices are (memory in use, load, temperature ...) for queries that ask for it, in a process of its own:
// the libraries that tell may take long, or hang, when a device is ill.
//
// The daemon starts it at the first such query and hands it each client's connection with everything else the report
// needs; it answers and closes. For the audit the daemon asks once a second itself. One request is a datagram on the socket
// between the two, so neither waits for the other.
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

  // Hands a client's connection on (or, for figures, a socket of the daemon's own), starting the process when there is none. On
  // failure the client has not been answered.
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
