// The daemon's loop: accepts clients, gives each that begins a session a worker process, answers queries, watches the
// workers, ends in order.
//
// One thread. Of what a client sent it looks at the first words of the first message, to tell a query from a hello; a
// hello goes to the worker unread. It makes no CUDA call.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/server_query.h"
#include "server/daemon/gateway_process.h"
#include "server/daemon/monitor.h"
#include "server/daemon/options.h"
#include "server/daemon/usage_memory.h"
#include "server/shares/share_table.h"

namespace tessera {

class Supervisor {
 public:
  // After SIGTERM to the workers: how long they get before SIGKILL.
  static constexpr uint64_t kTermWaitNs = 5'000'000'000;
  // Clients that have connected and said nothing yet; more stay in the kernel's queue until one of these has spoken.
  static constexpr size_t kSilentMax = 64;

  // `report` is what queries are told, without what changes from one to the next.
  Supervisor(const Options& options, UnixListener listener, ServerReport report);

  // Blocks the signals the loop handles; before the first worker is started, so that none gets lost.
  Status Prepare();
  // The gateway, if there is one: a word in the log when it ends before this daemon does. Before Run().
  void Watch(const GatewayProcess& gateway) { gateway_ = gateway; }
  // Runs until SIGTERM or SIGINT came and every worker has ended. Returns the exit code.
  int Run();

 private:
  struct Worker {
    uint64_t session;
    pid_t client_pid;
    uint64_t started_ns;
    UsageMemory usage;
    UniqueFd shares;  // to its worker (server/shares); invalid once that end is closed
  };
  struct Silent {
    UniqueFd connection;
    pid_t client_pid;
    uint64_t deadline_ns;
  };
  enum class Phase { kServing, kDraining, kTerminating, kKilling };

  void AcceptClients();
  // Looks at the clients that have not spoken: takes those that have, drops those that left or whose time is over.
  void HearSilent();
  // Does what the client asks for. False when it has said nothing yet.
  bool Hear(Silent& client);
  void AnswerQuery(int connection);
  MonitorRequest RequestToMonitor(const ServerQuery& query) const;
  // Answers what the workers asked about shares.
  void ServeAllShares(std::span<const pollfd> ready);
  void StartWorker(UniqueFd connection, pid_t client_pid);
  void Reap();
  void HandleSignals();
  void Advance(Phase phase);
  void SignalWorkers(int number);
  int PollTimeoutMs() const;

  const Options options_;
  UnixListener listener_;
  ServerReport report_;
  Monitor monitor_;
  UniqueFd signals_;
  std::vector<Silent> silent_;  // at most kSilentMax
  std::map<pid_t, Worker> workers_;
  ShareTable shares_;
  GatewayProcess gateway_;
  uint64_t next_session_ = 1;
  Phase phase_ = Phase::kServing;
  uint64_t deadline_ns_ = 0;  // when the present phase ends, for phases after kServing
};

}  // namespace tessera
