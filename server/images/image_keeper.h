// The process that keeps images for all sessions of a server, across sessions and restarts: it reads and writes files, which
// neither a worker may nor the daemon has the time for.
//
//   daemon: ImageKeeper keeper(start);  UniqueFd workers_end = keeper.Connect()   // one per worker
//   child:  return RunImageKeeper(fd, directory, bytes_max);
#pragma once

#include <functional>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// The daemon's end. One thread.
class ImageKeeper {
 public:
  // `start` starts the process with its end of the socket to the daemon.
  using Start = std::function<Status(int socket)>;
  explicit ImageKeeper(Start start) : start_(std::move(start)) {}

  // A worker's end of a socket to the keeper; starts the process when there is none (again).
  Result<UniqueFd> Connect();

 private:
  Start start_;
  UniqueFd socket_;
};

// The process's side. Takes workers' sockets from `socket` and serves them until the daemon is gone. Returns the exit code: 0, or
// 1 when the directory cannot be used, which it says in the log.
int RunImageKeeper(int socket, const std::string& directory, uint64_t bytes_max);

}  // namespace tessera
