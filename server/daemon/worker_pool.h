// Worker processes: one for each session, and some that wait. A process that waits ("warm") has loaded the driver for a client
// like the last one and made the context that such a client begins with, which takes most of the time from cuInit to a first
// kernel. A driver reads its environment once, so a warm process serves no client that asks for another one.
//
// Used by the daemon's thread alone. It makes no CUDA call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/daemon/options.h"
#include "server/daemon/usage_memory.h"
#include "server/daemon/worker_uids.h"
#include "server/images/image_keeper.h"

namespace tessera {

class WorkerPool {
 public:
  // From the start of a session until the next process is warmed up: what has just begun needs the machine more.
  static constexpr uint64_t kPauseNs = 1'000'000'000;

  struct Process {
    pid_t pid = -1;
    uint64_t session = 0;  // never used before
    UsageMemory usage;
    UniqueFd shares;    // the daemon's end (server/shares)
    UniqueFd handover;  // invalid once the process has its client
  };

  explicit WorkerPool(const Options& options);

  // Gives `connection`, on which the hello still waits, to a process. Takes the connection unless it fails.
  Result<Process> Serve(const ClientHello& hello, UniqueFd& connection);

  // Starts the processes that are to wait, when it is time.
  void WarmUp();
  // When WarmUp() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const { return next_ns_; }

  // A child has ended, and its user id is free: whether it was one of those that waited. None is started in its place before the next session.
  bool Forget(pid_t pid);
  // Ends those that wait, and starts no more.
  void Close();

 private:
  // For the client at `connection`, or, when that is null, for one that is to come.
  Result<Process> Start(const ClientHello& hello, const UniqueFd* connection);

  const Options& options_;
  ImageKeeper images_;
  WorkerUids uids_;
  std::map<pid_t, UniqueFd> uid_locks_;  // of processes that have not ended
  ClientHello like_;  // what the processes in `warm_` were prepared for
  std::list<Process> warm_;
  uint64_t next_ns_ = 0;
  uint64_t next_session_ = 1;
};

}  // namespace tessera
