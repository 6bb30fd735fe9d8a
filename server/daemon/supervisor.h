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
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/shortage.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/server_query.h"
#include "server/daemon/auditor.h"
#include "server/daemon/broker_process.h"
#include "server/daemon/caller.h"
#include "server/daemon/gateway_process.h"
#include "server/daemon/monitor.h"
#include "server/daemon/options.h"
#include "server/daemon/vgpu_file.h"
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
  // How long the broker has for an answer about a vGPU.
  static constexpr uint64_t kAskWaitNs = 5'000'000'000;
  // How long a worker that the audit caught has to end its session.
  static constexpr uint64_t kCaughtWaitNs = 5'000'000'000;
  // Clients for whom it is asked at the same time; more are told to come again.
  static constexpr size_t kAskedMax = 256;

  // `report` is what queries are told, without what changes from one to the next. `logs` outlives it.
  Supervisor(const Options& options, UnixListener listener, ServerReport report, ChildLogs& logs);

  // Blocks the signals the loop handles; before the first worker is started, so that none gets lost.
  Status Prepare();
  // The gateway, if there is one: a word in the log when it ends before this daemon does. Before Run().
  void Watch(const GatewayProcess& gateway) { gateway_ = gateway; }
  // Starts the broker, if there is to be one, and gives it the file of vGPUs; waits for what it says to that. Before Run().
  // kInvalidArgument: what stands in the file cannot be.
  Status StartBroker();
  // Runs until SIGTERM or SIGINT came and every worker has ended. Returns the exit code.
  int Run();

 private:
  struct Worker {
    WorkerPool::Process process;  // `shares` is invalid once the worker has closed its end, `line` once it is ending
    pid_t client_pid;
    Caller caller;
    ClientHello hello;
    uint64_t started_ns;
    uint64_t kill_at_ns = kNoDeadline;
  };
  struct Silent {
    UniqueFd connection;
    pid_t client_pid;
    uint64_t deadline_ns;
  };
  // A client that has named vGPUs, of which the broker is asked.
  struct Asked {
    AskMessage question;
    Silent client;
    ControlKind what;  // its hello or its query, which still waits on the connection
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
  // Whom the kernel, or this daemon's gateway, says that it is; `said` as CallerOf().
  Caller WhoIs(int connection, const std::string& said) const;
  // Does what the client asks for. False when it has said nothing yet.
  bool Hear(Silent& client);
  // Refuses what it has said, with a word in the log.
  void TurnAway(const Silent& client, const Status& why);
  // Ok when one more session may begin, else the sentence for its client.
  Status RoomForSession() const;
  // `rows`: the GPUs of the vGPUs that it names; null: all.
  void AnswerQuery(int connection, const std::vector<uint32_t>* rows);
  // `message`: the hello, which still waits on the connection. `rows`: as above.
  void BeginSession(Silent& client, std::span<const std::byte> message, const std::vector<uint32_t>* rows);
  // Asks the broker about the vGPUs that a hello or a query names. False when it names none.
  bool AskBroker(Silent& client, ControlKind what, std::span<const std::byte> message);
  void TakeAnswer(const AskAnswer& answer);
  // Hears the broker, and looks after it and the file of vGPUs.
  void TendBroker();
  // Everything that a broker knows from here.
  void TellBroker();
  void TellBrokerOf(const Worker& worker);
  void TellBrokerFile(const std::string& text);
  void TakeFileAnswer(const VgpuFileAnswer& answer);
  void TakeReported(const ReportedMessage& reported);
  // Whom the audit has found, and who should have ended by now.
  void TendAudit();
  MonitorRequest RequestToMonitor(const ServerQuery& query, const ServerReport& report, const Caller& asker) const;
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
  ChildLogs& logs_;
  BrokerProcess broker_;
  WorkerPool pool_;
  UnixListener listener_;
  ServerReport report_;
  Monitor monitor_;
  Auditor auditor_;
  UniqueFd signals_;
  std::vector<Silent> silent_;  // at most kSilentMax
  Shortage accepting_{"accepting clients", "raise the limits of tesserad (ulimit -n), or end sessions"};
  Shortage waiting_{"waiting for clients", "raise the limits of tesserad (ulimit -n)"};
  std::map<pid_t, Worker> workers_;
  std::vector<RoomWaiter> room_waiters_;
  std::set<pid_t> stuck_;  // have not ended in time: nobody waits for them again
  ShareTable shares_;
  GatewayProcess gateway_;
  FiguresMessage figures_;  // as the broker has said last
  std::vector<Asked> asked_;
  uint64_t next_ask_ = 1;
  std::optional<VgpuFile> vgpu_file_;
  uint64_t vgpu_revision_ = 0;
  std::string vgpu_problem_;      // of the file's last text; empty: it is in force
  std::string vgpu_in_force_;     // the last text that was
  std::vector<std::byte> hello_;  // room for one
  Phase phase_ = Phase::kServing;
  uint64_t deadline_ns_ = 0;  // when the present phase ends, for phases after kServing
};

}  // namespace tessera
