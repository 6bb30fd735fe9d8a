#include "server/daemon/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/device_snapshot.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/children/worker_line.h"
#include "server/daemon/session_bounds.h"
#include "server/shares/share_socket.h"

namespace tessera {
namespace {

// In the order of the snapshot: that of the rows of the pages.
GpusMessage GpusOf(const ServerReport& report, const Options& options) {
  GpusMessage gpus;
  Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.snapshot);
  if (!snapshot.ok()) return gpus;
  for (const DeviceSnapshot::Device& device : snapshot->devices) {
    if (gpus.uuids.size() == kGateRowsMax) break;
    std::memcpy(gpus.uuids.emplace_back().data(), device.uuid_v2, sizeof(device.uuid_v2));
    const uint64_t most = options.gpu_memory_bytes != 0 ? options.gpu_memory_bytes : device.total_bytes;
    gpus.memory_bytes.push_back(std::min(most, device.total_bytes));
  }
  gpus.context_bytes = report.context_bytes;
  gpus.waiting_workers = options.warm_workers.value_or(1);
  return gpus;
}

// Limits of the vGPUs that a query names and what they hold, by the answer's rows.
std::vector<MonitorRequest::Memory> MemoryOf(const ServerQuery& query, const AskAnswer& vgpus, const FiguresMessage& figures) {
  std::vector<MonitorRequest::Memory> memory(vgpus.rows.size());
  const std::string names = "+" + query.vgpus + "+";
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i].limit_bytes = i < vgpus.memory_limits.size() ? vgpus.memory_limits[i] : 0;
    for (const ServerReport::Vgpu& vgpu : figures.vgpus) {
      if (vgpu.device == vgpus.rows[i] && names.find("+" + vgpu.name + "+") != std::string::npos) {
        memory[i].held_bytes = vgpu.memory_held_bytes;
      }
    }
  }
  return memory;
}

bool HasTerminal() { return UniqueFd(open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)).valid(); }

}  // namespace

Supervisor::Supervisor(const Options& options, std::vector<UnixListener> listeners, ServerReport report, ChildLogs& logs,
                       ServiceNotice& notice)
    : options_(options),
      logs_(logs),
      notice_(notice),
      broker_(options_, GpusOf(report, options), logs),
      usage_(options_, logs),
      node_(options_, logs),
      pool_(options_, broker_.gpus(), report.context_bytes, logs),
      listeners_(std::move(listeners)),
      report_(std::move(report)),
      monitor_(options.log_word, logs),
      auditor_(options.audit, report_.context_bytes),
      descriptors_(DescriptorPlan::OfThisProcess(options.sessions_max)),
      sessions_(SessionLimits(options)),
      shares_(descriptors_.shares, SharesReserve(options)),
      turns_({.total = descriptors_.waiting, .reserve = descriptors_.waiting / 4}),
      host_memory_(HostMemoryLimits(options)),
      hello_(kControlMessageBytesMax) {}

Status Supervisor::Prepare() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGCHLD);
  // Of a private server whoever has started it decides.
  if (options_.owner_fd < 0) sigaddset(&handled, SIGHUP);
  has_terminal_ = HasTerminal();
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Status::FromErrno("cannot create a signal descriptor", errno);
  return Status::Ok();
}

int Supervisor::Run() {
  while (phase_ == Phase::kServing || !workers_.empty()) {
    pool_.WarmUp();
    notice_.Beat(MonotonicNs());
    // poll() skips negative descriptors.
    const bool hears = phase_ == Phase::kServing || phase_ == Phase::kDraining;
    const bool accepts = hears && !accepting_.rests(MonotonicNs());
    std::vector<pollfd> ready = {{signals_.get(), POLLIN, 0}, {phase_ == Phase::kServing ? options_.owner_fd : -1, POLLIN, 0},
                                 broker_.watched(),           {vgpu_file_ ? vgpu_file_->fd() : -1, POLLIN, 0},
                                 {auditor_.fd(), POLLIN, 0},  {usage_.fd(), POLLIN, 0},
                                 {node_.fd(), POLLIN, 0},     {broker_.names_fd(), POLLIN, 0}};
    const size_t first_listener = ready.size();
    for (const UnixListener& listener : listeners_) ready.push_back({accepts ? listener.fd() : -1, POLLIN, 0});
    const size_t first_silent = ready.size();
    for (const auto& [id, client] : silent_) ready.push_back({client.connection.get(), POLLIN, 0});
    const size_t first_start = ready.size();
    // Their hellos wait on the connections: only an end is of interest.
    starts_.ForEach([&](const std::string& holder, const Start& start) {
      ready.push_back({start.client.connection.get(), 0, 0});
    });
    const size_t first_worker = ready.size();
    for (const auto& [pid, worker] : workers_) {
      ready.push_back({worker.process.shares.get(), POLLIN, 0});
      ready.push_back({worker.process.line.get(), POLLIN, 0});
    }
    const size_t first_waiting = ready.size();
    pool_.Watch(&ready);
    const size_t first_log = ready.size();
    logs_.Watch(&ready);
    if (poll(ready.data(), ready.size(), PollTimeoutMs()) >= 0) {
      waiting_.End();
    } else if (errno != EINTR) {
      // For want of memory, or of descriptors that the process may have: sessions go on meanwhile.
      waiting_.Begin(Status::FromErrno("cannot wait", errno), MonotonicNs());
      poll(nullptr, 0, static_cast<int>(Shortage::kPauseNs / 1'000'000));
    }
    logs_.Relay(std::span(ready).subspan(first_log));
    const std::span<const pollfd> of_workers = std::span(ready).subspan(first_worker, first_waiting - first_worker);
    ServeAllShares(of_workers);
    HearWorkers(of_workers);
    pool_.Hear();
    HandleSignals();
    Reap();
    TendBroker();
    if (ready[7].revents != 0) broker_.NameCallers();
    TendNode();
    TendEnds();
    TendAudit();
    AnswerRoomWaiters(-1);
    if (ready[1].revents != 0 && phase_ == Phase::kServing) {
      LogInfo("the process that this server was started for has ended");
      Advance(Phase::kDraining);
    }
    const std::span<const pollfd> all(ready);
    DropStarts(all.subspan(first_start, first_worker - first_start));
    HearSilent(all.subspan(first_silent, first_start - first_silent));
    for (size_t i = 0; i < listeners_.size() && accepts; ++i) {
      if ((ready[first_listener + i].revents & POLLIN) != 0) AcceptClients(listeners_[i]);
    }
    TendStarts();
    if (phase_ != Phase::kServing && MonotonicNs() >= deadline_ns_) {
      Advance(phase_ == Phase::kDraining ? Phase::kTerminating : Phase::kKilling);
    }
  }
  LogInfo("all sessions have ended");
  KeepState();
  broker_.Stop();
  usage_.Stop();
  node_.Stop();
  // Their sessions have ended by now; the addresses are free again when these processes have ended.
  for (const GatewayProcess& gateway : gateways_) kill(gateway.pid, SIGTERM);
  for (const GatewayProcess& gateway : gateways_) waitpid(gateway.pid, nullptr, 0);
  pool_.CloseImages();
  monitor_.Close();
  AwaitChildren();
  logs_.Relay();
  return kServiceOk;
}

void Supervisor::TurnAway(const Silent& client, const Status& why) {
  LogWarning("turned away the client with pid {}: {}", client.client_pid, why.message());
  // Taken first: closing a socket with an unread message makes the kernel report an error instead of the refusal.
  (void)ReceiveMessage(client.connection.get(), kControlMessageBytesMax, 0).ok();
  Refuse(client.connection.get(), why);
}

void Supervisor::AnswerQuery(int connection, const AskAnswer* vgpus, const std::string& names) {
  const Result<SocketMessage> message = ReceiveMessage(connection, kControlMessageBytesMax, 0);
  Result<ServerQuery> query = message.ok() ? ServerQuery::Decode(message.value().bytes) : message.status();
  if (!query.ok()) return Refuse(connection, query.status());
  if (query->ask == ServerQuery::Ask::kEnd) return EndAsked(connection, query.value());
  if (vgpus != nullptr) query->vgpus = names;  // in place of a ticket
  const Caller asker = WhoIs(connection, query->holder);
  ServerReport report = report_;
  report.sessions = static_cast<uint32_t>(workers_.size());
  report.ending = phase_ != Phase::kServing;
  // All vGPUs and all details of a device would not fit into one message.
  if (query->ask == ServerQuery::Ask::kNothing || query->ask == ServerQuery::Ask::kState) {
    report.sharings = figures_.sharings;
    std::ranges::copy_if(figures_.vgpus, std::back_inserter(report.vgpus),
                         [&](const ServerReport::Vgpu& vgpu) { return SeesVgpu(asker, vgpu.name); });
  }
  for (ServerReport::Sharing& sharing : report.sharings) {
    sharing.unreported = auditor_.audit().found(sharing.device);
    sharing.unreported_memory = auditor_.memory_audit().found(sharing.device);
  }
  if (options_.vgpus) report.audit = auditor_.word();
  if (asker.sees_all) report.vgpu_problem = vgpu_problem_;  // it may name any of them
  std::vector<MonitorRequest::Memory> memory;
  if (vgpus != nullptr) {
    // What others do with their shares is not this client's to know.
    report.sharings.clear();
    report.vgpus.clear();
    report.context_bytes.clear();
    Result<DeviceSnapshot> all = DeviceSnapshot::Decode(report_.snapshot);
    if (!all.ok()) return Refuse(connection, all.status());
    Encoder some(kSnapshotBytesMax);
    DeviceSnapshot seen = all->Only(vgpus->rows);
    memory = MemoryOf(query.value(), *vgpus, figures_);
    for (size_t i = 0; i < std::min(memory.size(), seen.devices.size()); ++i) {
      if (memory[i].limit_bytes != 0) seen.devices[i].total_bytes = std::min(seen.devices[i].total_bytes, memory[i].limit_bytes);
    }
    seen.Encode(some);
    report.snapshot.assign(some.bytes().begin(), some.bytes().end());
  }
  if (query.value().ask != ServerQuery::Ask::kNothing && query.value().ask != ServerQuery::Ask::kBegin) {
    MonitorRequest request = RequestToMonitor(query.value(), report, asker);
    request.memory = std::move(memory);
    const Status asked = monitor_.Answer(request, connection);
    if (!asked.ok()) Refuse(connection, asked);
    return;
  }
  // Who has to name a vGPU and names none is told that first.
  if (query.value().ask == ServerQuery::Ask::kBegin && (vgpus != nullptr || !report.needs_vgpu)) {
    report.no_place = WhyNoPlaceFor(asker);
  }
  Encoder encoder(kControlMessageBytesMax);
  report.Encode(encoder);
  const Status sent = SendMessage(connection, encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("a query was not answered: {}", sent.message());
}

bool Supervisor::SeesVgpu(const Caller& asker, std::string_view vgpu) const {
  if (asker.sees_all) return true;
  const auto found = owners_.find(vgpu);
  return found != owners_.end() &&
         (found->second.empty() || std::ranges::find(found->second, asker.holder) != found->second.end());
}

MonitorRequest Supervisor::RequestToMonitor(const ServerQuery& query, const ServerReport& report, const Caller& asker) const {
  MonitorRequest request;
  request.query = query;
  request.report = report;
  const uint64_t now_ns = MonotonicNs();
  for (const auto& [pid, worker] : workers_) {
    // From inside a vGPU its own sessions are all that there is.
    if (!query.vgpus.empty() && worker.hello.vgpus != query.vgpus) continue;
    MonitorRequest::Session& session = request.sessions.emplace_back();
    session.session = worker.process.session;
    session.worker_pid = static_cast<uint32_t>(pid);
    // To the kernel the client of another host is the gateway.
    session.client_pid = worker.caller.is_remote ? worker.hello.pid : static_cast<uint32_t>(worker.client_pid);
    session.devices = pool_.DeviceUsesOf(pid);
    session.shown = Sees(asker, worker.caller.holder) ? 1 : 0;
    if (session.shown == 0) {
      ++request.report.other_sessions;
      continue;
    }
    ServerReport::Session& shown = request.report.session_list.emplace_back();
    shown.session = worker.process.session;
    shown.pid = session.client_pid;
    shown.age_ms = (now_ns - worker.started_ns) / 1'000'000;
    shown.program = worker.hello.program;
    shown.vgpus = worker.hello.vgpus;
    shown.name = worker.caller.holder;
    if (!worker.caller.is_remote) continue;  // the monitor knows this host's users
    shown.user = worker.hello.user;
    shown.host = worker.hello.host;
  }
  request.report.holders = HoldersFor(asker);
  request.devices = pool_.DeviceUsesOfAll();
  return request;
}

void Supervisor::BeginSession(Silent& client, std::span<const std::byte> message, Caller caller, HeldPart place,
                              const AskAnswer* vgpus, std::string names) {
  Result<ClientHello> hello = ClientHello::Decode(message);
  if (!hello.ok()) return TurnAway(client, hello.status());
  if (vgpus != nullptr) hello->vgpus = std::move(names);  // in place of a ticket
  hello->ticket.clear();
  if (vgpus == nullptr && report_.needs_vgpu) {
    return TurnAway(client, Status(StatusCode::kResourceExhausted,
                                   "the server shares its GPUs as vGPUs alone: name one of them with --vgpu (TESSERA_VGPU)"));
  }
  WorkerWish wish{*hello, ""};
  for (size_t i = 0; vgpus != nullptr && i < vgpus->rows.size(); ++i) {
    const uint32_t row = vgpus->rows[i];
    DeviceSnapshot::Device gpu;
    std::memcpy(gpu.uuid, broker_.gpus()[row].data(), sizeof(gpu.uuid));
    wish.gpus += (wish.gpus.empty() ? "" : ",") + gpu.UuidText();
    if (i < vgpus->memory_limits.size()) wish.memory_limits[row] = vgpus->memory_limits[i];
    if (i < vgpus->context_bytes.size() && vgpus->context_bytes[i] != 0) wish.context_bytes[row] = vgpus->context_bytes[i];
  }
  Result<WorkerPool::Process> process = pool_.Serve(wish, client.connection);
  if (!process.ok()) {
    LogError("a session did not start: {}", process.status().message());
    return TurnAway(
        client, Status(StatusCode::kResourceExhausted, "the server cannot start a worker process (" + process.status().message() +
                                                           "): raise its limits (ulimit -a), or end other sessions"));
  }
  const pid_t pid = process->pid;
  const uint64_t session = process->session;
  const uint64_t now_ns = MonotonicNs();
  HeldPart host_memory(host_memory_, caller.holder, 0);
  const auto begun =
      workers_.emplace(pid, Worker{std::move(process).value(), client.client_pid, std::move(caller), std::move(place),
                                   std::move(host_memory), std::move(*hello), now_ns, now_ns + kStartNs});
  if (options_.vgpus) TellBrokerOf(begun.first->second);
  shares_.Enter(session, begun.first->second.caller.holder);
  LogInfo("session {} opened by pid {}, worker pid {}, {} sessions; it is of {}", session, client.client_pid, pid,
          workers_.size(), begun.first->second.caller.holder);
}

void Supervisor::ServeAllShares(std::span<const pollfd> ready) {
  for (const pollfd& one : ready) {
    if (one.fd < 0 || one.revents == 0) continue;
    for (auto& [pid, worker] : workers_) {
      if (worker.process.shares.get() != one.fd) continue;
      const Status status = ServeShares(one.fd, worker.process.session, shares_);
      if (status.ok()) continue;
      // Closed by a worker that is ending, as a rule: what it shared goes when it has ended.
      if (status.code() != StatusCode::kUnavailable) {
        LogWarning("session {} shares nothing any more: {}", worker.process.session, status.message());
      }
      worker.process.shares.reset();
    }
  }
}

void Supervisor::HearWorkers(std::span<const pollfd> ready) {
  for (const pollfd& one : ready) {
    if (one.fd < 0 || one.revents == 0) continue;
    for (auto& [pid, worker] : workers_) {
      if (worker.process.line.get() != one.fd) continue;
      Result<WorkerSays> said = HearWorker(one.fd);
      if (said.ok()) {
        switch (said->word) {
          case WorkerWord::kMakesContext:
          case WorkerWord::kReady: break;  // in the moment in which it got its client: that is of no interest any more
          case WorkerWord::kBegun: worker.begins_until_ns = 0; break;
          case WorkerWord::kHoldsHost: {
            const bool may = worker.host_memory.Resize(said->bytes, MonotonicNs());
            if (!SendRoom(one.fd, may).ok()) LogDebug("worker {} was not told whether it may have memory", pid);
            break;
          }
          case WorkerWord::kNeedsRoom:
          case WorkerWord::kAwaitsEnds: MakeRoomFor(pid, *said);
        }
      } else if (said.status().code() != StatusCode::kTimedOut) {
        if (said.status().code() != StatusCode::kUnavailable) {
          LogWarning("session {} is not heard any more: {}", worker.process.session, said.status().message());
        }
        worker.process.line.reset();
      }
    }
  }
}

void Supervisor::MakeRoomFor(pid_t pid, const WorkerSays& question) {
  if (std::any_of(room_waiters_.begin(), room_waiters_.end(), [pid](const RoomWaiter& waiter) { return waiter.pid == pid; }))
    return;
  const bool give_back = question.word == WorkerWord::kNeedsRoom;
  RoomWaiter waiter{pid, {}, MonotonicNs() + kRoomWaitNs, give_back ? GpuUuid{} : question.gpu};
  if (give_back) {
    pool_.GiveBack();
  } else {
    // Some part of a context that is being made is taken already. Whoever makes one has said so before.
    pool_.Hear();
    waiter.making = pool_.MakingContexts(question.gpu);
  }
  waiter.awaited.insert(pool_.ending().begin(), pool_.ending().end());
  for (const auto& [other, worker] : workers_) {
    if (!worker.process.line.valid()) waiter.awaited.insert(other);
  }
  for (std::set<pid_t>* pids : {&waiter.awaited, &waiter.making}) {
    std::erase_if(*pids, [this](pid_t awaited) { return stuck_.contains(awaited); });
  }
  if (!waiter.awaited.empty() || !waiter.making.empty()) {
    room_waiters_.push_back(std::move(waiter));
  } else if (!SendRoom(workers_.at(pid).process.line.get(), false, pool_.ContextBytes(waiter.gpu)).ok()) {
    LogDebug("worker {} was not told that there is no room", pid);
  }
}

void Supervisor::AnswerRoomWaiters(pid_t ended) {
  std::erase_if(room_waiters_, [&](RoomWaiter& waiter) {
    waiter.awaited.erase(ended);
    if (!waiter.making.empty()) {
      const std::set<pid_t> making = pool_.MakingContexts(waiter.gpu);
      std::erase_if(waiter.making, [&making](pid_t pid) { return !making.contains(pid); });
    }
    const auto worker = workers_.find(waiter.pid);
    if (worker == workers_.end() || !worker->second.process.line.valid()) return true;  // it is ending itself
    if ((!waiter.awaited.empty() || !waiter.making.empty()) && MonotonicNs() < waiter.deadline_ns) return false;
    stuck_.insert(waiter.awaited.begin(), waiter.awaited.end());
    stuck_.insert(waiter.making.begin(), waiter.making.end());
    if (!SendRoom(worker->second.process.line.get(), true, pool_.ContextBytes(waiter.gpu)).ok())
      LogDebug("worker {} was not told that there is room", waiter.pid);
    return true;
  });
}

void Supervisor::Reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid <= 0) return;
    logs_.Forget(pid);
    std::erase_if(gateways_, [&](const GatewayProcess& gateway) {
      if (gateway.pid != pid) return false;
      LogError("the gateway at {} {}: clients on other hosts cannot connect there any more; start the server again", gateway.url,
               DescribeWaitStatus(wait_status));
      return true;
    });
    if (broker_.Forget(pid, wait_status) || usage_.Forget(pid, wait_status) || node_.Forget(pid, wait_status)) continue;
    stuck_.erase(pid);
    AnswerRoomWaiters(pid);
    if (pool_.Forget(pid)) LogInfo("worker {}, which waited for a session, {}", pid, DescribeWaitStatus(wait_status));
    const auto found = workers_.find(pid);
    if (found == workers_.end()) continue;
    // Everything of it is gone when the log says so.
    const uint64_t session = found->second.process.session;
    const pid_t client_pid = found->second.client_pid;
    const uint64_t seconds = (MonotonicNs() - found->second.started_ns) / 1'000'000'000;
    const bool told_to_end = found->second.told_to_end;
    workers_.erase(found);
    broker_.Left(session);
    shares_.RemoveSession(session);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kServiceOk) {
      LogInfo("session {} of pid {} closed after {} s", session, client_pid, seconds);
    } else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitClientGone) {
      LogInfo("session {} of pid {} ended after {} s: its program ended without closing it", session, client_pid, seconds);
    } else if (told_to_end) {
      LogInfo("session {} of pid {} ended after {} s, as it was told", session, client_pid, seconds);
    } else if (phase_ == Phase::kServing || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGTERM)) {
      LogWarning("session {} of pid {} ended after {} s: worker {} {}", session, client_pid, seconds, pid,
                 DescribeWaitStatus(wait_status));
    }
  }
}

void Supervisor::AwaitChildren() {
  const uint64_t deadline_ns = MonotonicNs() + kTermWaitNs;
  pid_t ended = 0;
  while ((ended = waitpid(-1, nullptr, WNOHANG)) >= 0 && MonotonicNs() < deadline_ns) {
    ended > 0 ? logs_.Forget(ended) : static_cast<void>(usleep(1000));
  }
}

void Supervisor::HandleSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;  // Reap() looks at all children anyway
    // A shell passes the end of its terminal on to its jobs.
    const bool terminal_gone = info.ssi_code == SI_KERNEL || (has_terminal_ && !HasTerminal());
    if (info.ssi_signo == SIGHUP && !terminal_gone) {
      notice_.Reloading();
      const std::string said = ReadSettingsAgain();
      if (!options_.control_url.empty()) ReadKeysAgain();
      notice_.Reloaded();
      if (!said.empty()) notice_.Status(said);
      continue;
    }
    // A second signal of these does not wait for the grace period.
    Advance(phase_ == Phase::kServing ? Phase::kDraining : Phase::kTerminating);
  }
}

void Supervisor::Advance(Phase phase) {
  if (phase < phase_ || (phase == phase_ && phase != Phase::kKilling)) return;
  phase_ = phase;
  if (phase == Phase::kDraining || phase == Phase::kTerminating) {
    notice_.Stopping(fmt::format("ending, {} sessions left", workers_.size()));
  }
  pool_.Close();
  RefuseStarts();
  const uint64_t now_ns = MonotonicNs();
  switch (phase) {
    case Phase::kServing: break;
    case Phase::kDraining:
      LogInfo("ending: no new sessions, {} sessions get {} s", workers_.size(), options_.grace_s);
      deadline_ns_ = now_ns + options_.grace_s * uint64_t{1'000'000'000};
      break;
    case Phase::kTerminating:
      for (UnixListener& listener : listeners_) listener.Close();
      if (!workers_.empty()) LogInfo("ending {} sessions", workers_.size());
      SignalWorkers(SIGTERM);
      deadline_ns_ = now_ns + kTermWaitNs;
      break;
    case Phase::kKilling:
      SignalWorkers(SIGKILL);
      deadline_ns_ = now_ns + kTermWaitNs;
      break;
  }
}

void Supervisor::SignalWorkers(int number) {
  for (const auto& [pid, worker] : workers_) kill(pid, number);
}

int Supervisor::PollTimeoutMs() const {
  uint64_t deadline_ns = phase_ == Phase::kServing ? pool_.next_ns() : deadline_ns_;
  deadline_ns = std::min({deadline_ns, logs_.next_ns(), notice_.next_ns()});
  for (const auto& [id, client] : silent_) deadline_ns = std::min(deadline_ns, client.deadline_ns);
  deadline_ns = std::min(deadline_ns, NextStartNs());
  if (accepting_.rests(MonotonicNs())) deadline_ns = std::min(deadline_ns, accepting_.until_ns());
  for (const Asked& asked : asked_) deadline_ns = std::min(deadline_ns, asked.deadline_ns);
  if (options_.vgpus) deadline_ns = std::min({deadline_ns, broker_.next_ns(), usage_.next_ns(), node_.next_ns()});
  deadline_ns = std::min(deadline_ns, state_.next_ns());
  for (const auto& [pid, worker] : workers_) deadline_ns = std::min({deadline_ns, worker.kill_at_ns, worker.end_at_ns});
  for (const RoomWaiter& waiter : room_waiters_) deadline_ns = std::min(deadline_ns, waiter.deadline_ns);
  if (deadline_ns == kNoDeadline) return -1;
  const uint64_t now_ns = MonotonicNs();
  return now_ns >= deadline_ns ? 0 : static_cast<int>(std::min<uint64_t>((deadline_ns - now_ns) / 1'000'000 + 1, 60'000));
}

}  // namespace tessera
