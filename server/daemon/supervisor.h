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
#include <utility>
#include <vector>

#include "programs/service_notice.h"
#include "protocol/base/shortage.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/relay/strangers.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/server_query.h"
#include "server/daemon/auditor.h"
#include "server/daemon/broker_process.h"
#include "server/daemon/caller.h"
#include "server/daemon/children/worker_line.h"
#include "server/daemon/gateway_process.h"
#include "server/daemon/monitor.h"
#include "server/daemon/node_process.h"
#include "server/daemon/options.h"
#include "server/daemon/state_file.h"
#include "server/daemon/usage_process.h"
#include "server/daemon/vgpu_file.h"
#include "server/daemon/worker_pool.h"
#include "server/holders/descriptor_plan.h"
#include "server/holders/fair_bound.h"
#include "server/holders/fair_queue.h"
#include "server/shares/share_table.h"

namespace tessera {

class Supervisor {
 public:
  // After SIGTERM to the workers: how long they get before SIGKILL.
  static constexpr uint64_t kTermWaitNs = 5'000'000'000;
  // Sessions of all holders that begin at the same time, or as many as there are cores if those are more. A holder of whom none
  // begins waits for no other's.
  static constexpr size_t kStartsAtOnce = 4;
  // How long one counts among them, at most.
  static constexpr uint64_t kStartNs = 5'000'000'000;
  // How long a session that asked for room waits for processes to end, at most.
  static constexpr uint64_t kRoomWaitNs = 5'000'000'000;
  // How long the broker has for an answer about a vGPU.
  static constexpr uint64_t kAskWaitNs = 5'000'000'000;
  // How long a worker whose session is to end has for that.
  static constexpr uint64_t kCaughtWaitNs = 5'000'000'000;
  // Clients for whom it is asked at the same time; more are told to come again.
  static constexpr size_t kAskedMax = 256;

  // `report` is what queries are told, without what changes from one to the next. `logs` and `notice` outlive it; the latter
  // hears that the loop lives, reads its keys again, and ends.
  Supervisor(const Options& options, std::vector<UnixListener> listeners, ServerReport report, ChildLogs& logs,
             ServiceNotice& notice);

  // Blocks the signals the loop handles; before the first worker is started, so that none gets lost.
  Status Prepare();
  // The gateways: a word in the log when one ends before this daemon does. Before Run().
  void Watch(std::vector<GatewayProcess> gateways) { gateways_ = std::move(gateways); }
  // Starts the broker, if there is to be one, and gives it the file of vGPUs; waits for what it says to that. Before Run().
  // kInvalidArgument: what stands in the file cannot be; kUnavailable: the control API cannot listen where it was asked to, or
  // its state not be where it was asked to.
  Status StartBroker();
  // Starts the node, if there is to be one, after Watch(). Before Run(). kNotFound: there is no such program.
  Status StartNode();
  // After that: where the control API listens for other hosts, tls://HOST:PORT; empty: nowhere.
  std::string control_url() const { return control_tls_ ? control_tls_->address().Url() : ""; }
  // Runs until SIGTERM or SIGINT came and every worker has ended. Returns the exit code.
  int Run();

 private:
  struct Worker {
    WorkerPool::Process process;  // `shares` is invalid once the worker has closed its end, `line` once it is ending
    pid_t client_pid;
    Caller caller;
    HeldPart place;        // of sessions_
    HeldPart host_memory;  // of host_memory_
    ClientHello hello;
    uint64_t started_ns;
    uint64_t begins_until_ns;  // from then on, or when it has begun, it is none of those that begin
    uint64_t kill_at_ns = kNoDeadline;
    uint64_t end_at_ns = kNoDeadline;   // somebody has asked for it
    bool told_to_end = false;           // for that reason
    GateEnd end_why = GateEnd::kAsked;  // then
  };
  struct Silent {
    UniqueFd connection;
    pid_t client_pid;
    uint64_t deadline_ns;
  };
  // What a client asks that is about to begin a session, once there is a place: its query waits on the connection.
  struct PlaceQuestion {
    std::optional<AskAnswer> vgpus;  // that it names
    std::string names;               // of these
  };
  // A client that has said hello, and whose session cannot begin yet; or one that asks for a place, and there is none.
  struct Start {
    Silent client;
    Caller caller;
    HeldPart turn;                          // of turns_
    uint64_t deadline_ns;                   // for its turn
    uint64_t place_until_ns;                // it is refused from then on when there is no place
    std::optional<PlaceQuestion> question;  // none: it has said hello
  };
  // A client that has named vGPUs, of which the broker is asked.
  struct Asked {
    AskMessage question;
    std::vector<std::byte> ticket;  // the node is asked first, which vGPUs that is; empty: there is none, or the node has said
    Silent client;
    Caller caller;
    HeldPart place;    // of sessions_, for a hello
    ControlKind what;  // its hello or its query, which still waits on the connection
    uint64_t deadline_ns;
  };
  // A session that has asked for room and has not been answered.
  struct RoomWaiter {
    pid_t pid;
    std::set<pid_t> awaited;  // what is to end first
    uint64_t deadline_ns;
    GpuUuid gpu{};             // of which it asks how much nobody needs; zeros: it does not
    std::set<pid_t> making{};  // what is to have its context there first, or to end
  };
  // Who finds a full server waits for so long at least: sessions may be about to end. But never for longer than --start-wait.
  static constexpr uint64_t kPlaceWaitNs = 2'000'000'000;
  // While it drains, newcomers are told so.
  enum class Phase { kServing, kDraining, kTerminating, kKilling };

  // Accepts whoever connects there. Beyond the bounds of strangers the oldest that has said nothing goes.
  void AcceptClients(UnixListener& listener);
  // Looks at the clients that have not spoken: takes those that have, drops those that left or whose time is over. `ready`: of
  // each.
  void HearSilent(std::span<const pollfd> ready);
  // It has gone for a newer one.
  void DropStranger(Strangers::Id id);
  // Whom the kernel, or this daemon's gateway, says that it is; `said` as CallerOf().
  Caller WhoIs(int connection, const std::string& said) const;
  // Does what the client asks for. False when it has said nothing yet.
  bool Hear(Silent& client);
  // Refuses what it has said, with a word in the log.
  void TurnAway(const Silent& client, const Status& why);
  // What each holder that this asker may see takes of the server.
  std::vector<ServerReport::Holder> HoldersFor(const Caller& asker) const;
  // Has a hello wait for its turn. `message`: the hello, which still waits on the connection.
  void QueueStart(Silent& client, std::span<const std::byte> message);
  // Forgets those that left. `ready`: of each.
  void DropStarts(std::span<const pollfd> ready);
  // Begins those whose turn it is, refuses those that have waited too long.
  void TendStarts();
  void BeginStart(Start start);
  // Has a query of kBegin wait where there is no place for its session. False: it is to be answered now.
  bool QueueQuestion(Silent& client, const AskAnswer* vgpus, const std::string& names);
  void AnswerQuestion(const Start& start);
  // When whoever comes now and wants to wait for a place for so long is refused.
  uint64_t PlaceUntilNs(uint32_t wait_ms) const;
  // What clients are told that come too late.
  std::string Ending() const;
  // The server is ending.
  void RefuseStarts();
  // Why it has not begun in time.
  Status NoRoomFor(const Caller& caller) const;
  std::string WhyFullFor(const Caller& caller) const;
  // Why a session of this caller would have to wait for its place; empty: it would not. Who is refused counts as one who asks.
  std::string WhyNoPlaceFor(const Caller& caller);
  // Sessions that begin: of all, or of one holder.
  size_t Beginning(const std::string* holder = nullptr) const;
  uint64_t NextStartNs() const;
  // `vgpus`: what the broker says of the vGPUs that it names, or its ticket; null: it names none. `names`: of them.
  void AnswerQuery(int connection, const AskAnswer* vgpus, const std::string& names = {});
  // `message`: the hello, which still waits on the connection. `place`: its place among the sessions. `vgpus`: as above; `names`:
  // of them.
  void BeginSession(Silent& client, std::span<const std::byte> message, Caller caller, HeldPart place, const AskAnswer* vgpus,
                    std::string names = {});
  // Asks the broker about the vGPUs that a hello or a query names, or the node about its ticket. False when it has neither.
  // `place`: of a hello.
  bool AskBroker(Silent& client, ControlKind what, std::span<const std::byte> message, HeldPart& place);
  void TakeAnswer(const AskAnswer& answer);
  // Turns away whoever has no ticket where one is needed, or shows one where none is taken. False: neither.
  bool RefuseWithoutTicket(const Silent& client, bool has_ticket, bool is_query);
  void AskNode(const Asked& asked);
  void TakeTicketAnswer(const TicketAnswer& answer);
  // Hears the node, and looks after it.
  void TendNode();
  // Hears the broker, and looks after it and the file of vGPUs.
  void TendBroker();
  // It is ended in time, also if the broker has forgotten that. Of several times the first counts.
  void EndSession(const EndMessage& end, GateEnd why);
  // Somebody asks for the end of a session: its holder or an administrator.
  void EndAsked(int connection, const ServerQuery& query);
  void TendEnds();
  // What there is to be for the control API.
  Status OpenControl();
  Status OpenMetrics();
  Status OpenControlByTls();
  // Waits for what the broker says of the keys.
  Status TellFirstKeys();
  void ReadKeysAgain();
  void TakeKeysAnswer(const ControlKeysAnswer& answer);
  // Reads the file of settings again: takes what can change, says in the log what has changed and what needs a restart. What
  // whoever told it to should see, a line: empty when all that the file says is in force.
  std::string ReadSettingsAgain();
  Status OpenState();
  void Keep(BrokerProcess::Said& said);
  // What the broker has said by the end goes into its state.
  void KeepState();
  // The vGPUs of the API, and what was answered there, to a broker that knows neither.
  void GiveBackState();
  // Everything that a broker knows from here.
  void TellBroker();
  void TellBrokerOf(const Worker& worker);
  void TellBrokerFile(const std::string& text);
  void TakeFileAnswer(const VgpuFileAnswer& answer);
  void TakeReported(const ReportedMessage& reported);
  // Whom the audit has found, and who should have ended by now.
  void TendAudit();
  // Whether this caller is told of a vGPU. One that the broker has not told of yet is for administrators.
  bool SeesVgpu(const Caller& asker, std::string_view vgpu) const;
  MonitorRequest RequestToMonitor(const ServerQuery& query, const ServerReport& report, const Caller& asker) const;
  // Answers what the workers asked about shares.
  void ServeAllShares(std::span<const pollfd> ready);
  // Hears what workers with a session say.
  void HearWorkers(std::span<const pollfd> ready);
  // Answers this worker when the sessions that are over have ended, and the processes that waited and were told to. If it needs
  // room, all that wait are told to; else nobody is, and the contexts that are being made on its GPU are awaited.
  void MakeRoomFor(pid_t pid, const WorkerSays& question);
  // Answers those that need not wait any longer. `ended`: a process that has.
  void AnswerRoomWaiters(pid_t ended);
  void Reap();
  // Until no child is left, for kTermWaitNs at most: systemd kills those that outlive the server, whatever they write.
  void AwaitChildren();
  void HandleSignals();
  void Advance(Phase phase);
  void SignalWorkers(int number);
  int PollTimeoutMs() const;

  Options options_;  // whoever refers to them sees changes of ReadSettingsAgain()
  ChildLogs& logs_;
  ServiceNotice& notice_;
  BrokerProcess broker_;
  UsageProcess usage_;
  NodeProcess node_;
  WorkerPool pool_;
  std::vector<UnixListener> listeners_;
  UniqueFd metrics_;                        // where the broker tells of what it counts
  std::optional<UnixListener> control_;     // of the control API
  std::optional<TcpListener> control_tls_;  // likewise
  std::optional<HandedKeys> keys_;          // that are in force there
  std::optional<HandedKeys> next_keys_;     // of which the broker has not said yet whether they can be used
  uint64_t keys_revision_ = 0;
  StateFile state_ = StateFile::InMemory();  // for a broker that is started anew, and for the next server
  ServerReport report_;
  Monitor monitor_;
  Auditor auditor_;
  UniqueFd signals_;
  bool has_terminal_ = false;
  const DescriptorPlan descriptors_;
  FairBound sessions_;
  ShareTable shares_;
  FairBound turns_;        // starts that wait
  FairBound host_memory_;  // bytes of sessions' segments
  Strangers strangers_{StrangerBounds::OfThisProcess()};
  std::map<Strangers::Id, Silent> silent_;
  Strangers::Id next_stranger_ = 1;
  FairQueue<Start> starts_;
  Shortage accepting_{"accepting clients", "raise the limits of tesserad (ulimit -n), or end sessions"};
  Shortage waiting_{"waiting for clients", "raise the limits of tesserad (ulimit -n)"};
  std::map<pid_t, Worker> workers_;
  std::vector<RoomWaiter> room_waiters_;
  std::set<pid_t> stuck_;                                                // have not ended in time: nobody waits for them again
  std::vector<GatewayProcess> gateways_;                                 // that run
  FiguresMessage figures_;                                               // as the broker has said last
  std::map<std::string, std::vector<std::string>, std::less<>> owners_;  // of vGPUs, likewise; empty: everybody may see it
  std::vector<Asked> asked_;
  uint64_t next_ask_ = 1;
  std::optional<WatchedVgpuFile> vgpu_file_;
  uint64_t vgpu_revision_ = 0;
  std::string vgpu_problem_;      // of the file's last text; empty: it is in force
  std::string vgpu_in_force_;     // the last text that was
  std::vector<std::byte> hello_;  // room for one
  Phase phase_ = Phase::kServing;
  uint64_t deadline_ns_ = 0;  // when the present phase ends, for phases after kServing
};

}  // namespace tessera
