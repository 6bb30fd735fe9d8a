// The process that keeps images for all sessions of a server, across sessions and restarts: it reads and writes files, which
// neither a worker may nor the daemon has the time for.
//
//   daemon: ImageKeeper keeper(start);  UniqueFd workers_end = keeper.Connect()   // one per worker
//   child:  return RunImageKeeper(fd, directory, bytes_max);
#pragma once

#include <sys/types.h>

#include <cstdint>
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
  // The process ends when it has written what it writes; this does not wait for that.
  void Close() { socket_.reset(); }

 private:
  Start start_;
  UniqueFd socket_;
};

// What the process gives up once the directory is open, and before it hears of a worker.
struct KeeperSandbox {
  uid_t own_user = 0;  // to whom the directory of root's server may belong
  uid_t user = 0;      // as whom root's keeper goes on, and to whom it gives the directory: `own_user` or root
  std::function<Status()> enter = {};
};

// The process's side. Takes workers' sockets from `socket` and serves them until the daemon is gone. Returns the exit code: 0, or
// 1 when the sandbox cannot be entered. A directory that cannot be used is said in the log, and nothing is kept.
int RunImageKeeper(int socket, const std::string& directory, uint64_t bytes_max, const KeeperSandbox& sandbox = {});

}  // namespace tessera
