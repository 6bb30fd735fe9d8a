// The daemon's loop: accepts clients, gives each that begins a session a worker process, answers queries, watches the
// workers, ends in order.
//
// One thread. Of what a client sends it reads the first message: a query, or a hello, which tells what the worker's driver is to
// be loaded with; the worker takes it from the connection. It makes no CUDA call.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
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
#include "server/daemon/worker_pool.h"
#include "server/shares/share_table.h"

namespace tessera {

class Supervisor {
 public:
  // After SIGTERM to the workers: how long they get before SIGKILL.
  static constexpr uint64_t kTermWaitNs = 5'000'000'000;
  // Clients that have connected and said nothing yet; more stay in the kernel's queue until one of these has spoken.
  static constexpr size_t kSilentMax = 64;
  // How long a session that asked for room waits for processes to end, at most.
  static constexpr uint64_t kRoomWaitNs = 5'000'000'000;

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
    WorkerPool::Process process;  // `shares` is invalid once the worker has closed its end, `line` once it is ending
    pid_t client_pid;
    std::string program;  // of the client, as it says
    uint64_t started_ns;
  };
  struct Silent {
    UniqueFd connection;
    pid_t client_pid;
    uint64_t deadline_ns;
  };
  // A session that has asked for room and has not been answered.
  struct RoomWaiter {
    pid_t pid;
    std::set<pid_t> awaited;  // what is to end first
    uint64_t deadline_ns;
  };
  enum class Phase { kServing, kDraining, kTerminating, kKilling };

  void AcceptClients();
  // Looks at the clients that have not spoken: takes those that have, drops those that left or whose time is over.
  void HearSilent();
  // Does what the client asks for. False when it has said nothing yet.
  bool Hear(Silent& client);
  void AnswerQuery(int connection);
  // `message`: the hello, which still waits on the connection.
  void BeginSession(Silent& client, std::span<const std::byte> message);
  MonitorRequest RequestToMonitor(const ServerQuery& query) const;
  // Answers what the workers asked about shares.
  void ServeAllShares(std::span<const pollfd> ready);
  // Hears what workers with a session say.
  void HearWorkers(std::span<const pollfd> ready);
  // Answers this worker when the sessions that are over have ended; with `give_back` also the processes that wait, which are told
  // to.
  void MakeRoomFor(pid_t pid, bool give_back);
  // Answers those that need not wait any longer. `ended`: a process that has.
  void AnswerRoomWaiters(pid_t ended);
  void Reap();
  void HandleSignals();
  void Advance(Phase phase);
  void SignalWorkers(int number);
  int PollTimeoutMs() const;

  const Options options_;
  WorkerPool pool_;
  UnixListener listener_;
  ServerReport report_;
  Monitor monitor_;
  UniqueFd signals_;
  std::vector<Silent> silent_;  // at most kSilentMax
  std::map<pid_t, Worker> workers_;
  std::vector<RoomWaiter> room_waiters_;
  std::set<pid_t> stuck_;  // have not ended in time: nobody waits for them again
  ShareTable shares_;
  GatewayProcess gateway_;
  std::vector<std::byte> hello_;  // room for one
  Phase phase_ = Phase::kServing;
  uint64_t deadline_ns_ = 0;  // when the present phase ends, for phases after kServing
};

}  // namespace tessera
