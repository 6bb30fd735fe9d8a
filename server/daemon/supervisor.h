// The daemon's loop: accepts clients, gives each a worker process, watches the workers, ends in order.
//
// One thread. It parses nothing that a client sent (the worker does) and makes no CUDA call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"
#include "server/daemon/options.h"

namespace tessera {

class Supervisor {
 public:
  // After SIGTERM to the workers: how long they get before SIGKILL.
  static constexpr uint64_t kTermWaitNs = 5'000'000'000;

  Supervisor(const Options& options, UnixListener listener);

  // Blocks the signals the loop handles; before the first worker is started, so that none gets lost.
  Status Prepare();
  // Runs until SIGTERM or SIGINT came and every worker has ended. Returns the exit code.
  int Run();

 private:
  struct Worker {
    uint64_t session;
    pid_t client_pid;
    uint64_t started_ns;
  };
  enum class Phase { kServing, kDraining, kTerminating, kKilling };

  void AcceptClients();
  void StartWorker(UniqueFd connection, pid_t client_pid);
  void Reap();
  void HandleSignals();
  void Advance(Phase phase);
  void SignalWorkers(int number);
  int PollTimeoutMs() const;

  const Options options_;
  UnixListener listener_;
  UniqueFd signals_;
  std::map<pid_t, Worker> workers_;
  uint64_t next_session_ = 1;
  Phase phase_ = Phase::kServing;
  uint64_t deadline_ns_ = 0;  // when the present phase ends, for phases after kServing
};

}  // namespace tessera
