#include "server/daemon/worker_pool.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/host_memory.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/client_environment.h"
#include "server/daemon/children/worker_environment.h"
#include "server/daemon/children/worker_line.h"
#include "server/daemon/warm_bounds.h"
#include "server/daemon/worker_sandbox.h"
#include "server/shares/share_socket.h"

namespace tessera {
namespace {

// Whether a driver that was loaded for the one serves the other.
bool SameDriver(const WorkerWish& a, const WorkerWish& b) {
  return a.gpus == b.gpus && a.hello.devices == b.hello.devices && a.hello.session_index == b.hello.session_index &&
         AllowedVariables(a.hello.environment) == AllowedVariables(b.hello.environment);
}

// For workers of one user that have a root of their own; else there is none.
SharedDirectory MakeSharedDirectory(const Options& options) {
  const bool in_sandbox = options.sandbox == SandboxMode::kAuto || options.sandbox == SandboxMode::kRequire;
  if (!in_sandbox || !options.private_root || !options.worker_uids.empty()) return {};
  Result<SharedDirectory> made = SharedDirectory::Make(UserOfWorkers(options));
  if (made.ok()) return std::move(made).value();
  LogWarning("workers see the machine's /dev/shm: {}", made.status().message());
  return {};
}

// Few: drivers on one machine wait for each other while they make contexts, and of many that begin at once all are late. With
// eight, one program in ten took twice as long as natively, with two none did (an H200, four short programs at once). Half of the
// cores at most: programs that run need theirs.
size_t StartsAtOnce() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 2U); }

// Before the worker has its client: it counts its session's memory from the first call.
Status LimitMemory(const WorkerWish& wish, const GateMemory& gate) {
  for (const auto& [row, bytes] : wish.memory_limits) RETURN_IF_ERROR(gate.SetMemoryLimit(row, bytes));
  for (const auto& [row, bytes] : wish.context_bytes) RETURN_IF_ERROR(gate.SetContextBytes(row, bytes));
  return Status::Ok();
}

}  // namespace

WorkerPool::WorkerPool(const Options& options, const std::vector<GpusMessage::Uuid>& gpus, std::vector<uint64_t> context_bytes,
                       ChildLogs& logs)
    : options_(options),
      gpus_(gpus),
      context_bytes_(std::move(context_bytes)),
      logs_(logs),
      starts_max_(StartsAtOnce()),
      images_([&options, &logs](int socket) {
        return StartSelf(
                   logs, kImagesLogName,
                   {"--keeper-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid()), "--log", options.log_word,
                    "--image-cache", options.image_directory, "--image-cache-size", std::to_string(options.image_gib),
                    "--sandbox", options.sandbox_word, "--worker-root", options.private_root ? "private" : "machine"},
                   {socket})
            .status();
      }),
      uids_(options.worker_uids),
      shared_(MakeSharedDirectory(options)) {
  kinds_.push_back({.id = next_kind_++, .like = {}, .demand = {}});
  // Here, so that nothing is left of a first session. Where it fails each session tries again.
  if (options.driver == "emulator") static_cast<void>(EmulatedDevices());
}

Result<std::shared_ptr<EmulatedDeviceMemory>> WorkerPool::EmulatedDevices() {
  if (device_memory_ != nullptr) return device_memory_;
  Result<EmulatedDeviceMemory> made = EmulatedDeviceMemory::Make();
  if (!made.ok()) return made.status();
  auto memory = std::make_shared<EmulatedDeviceMemory>(std::move(made).value());
  if (options_.owner_fd < 0) device_memory_ = memory;
  return memory;
}

DeviceUses WorkerPool::DeviceUsesOf(pid_t pid) const {
  const auto found = device_slots_.find(pid);
  return found == device_slots_.end() ? DeviceUses{} : found->second.uses();
}

DeviceUses WorkerPool::DeviceUsesOfAll() const {
  DeviceUses all;
  for (const auto& [pid, slot] : device_slots_) {
    const DeviceUses uses = slot.uses();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].used_bytes += uses[i].used_bytes;
      all[i].busy_ns += uses[i].busy_ns;
      all[i].running += uses[i].running;
    }
  }
  if (device_memory_ == nullptr) return all;
  for (size_t i = 0; i < all.size(); ++i) all[i].busy_ns += device_memory_->ended_busy_ns()[i];
  return all;
}

Result<WorkerPool::Process> WorkerPool::Start(const WorkerWish& wish, const UniqueFd* connection) {
  const uint64_t session = next_session_++;
  Result<GateMemory> gate = GateMemory::Make(gpus_, context_bytes_);
  if (!gate.ok()) return gate.status();
  RETURN_IF_ERROR(LimitMemory(wish, *gate));
  Result<std::pair<UniqueFd, UniqueFd>> shares = MakeSocketPair();
  if (!shares.ok()) return shares.status();
  Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
  if (!line.ok()) return line.status();
  RETURN_IF_ERROR(SendWish(line->first.get(), wish.hello));
  // There when the process looks whether somebody waits.
  if (connection != nullptr) RETURN_IF_ERROR(SendClient(line->first.get(), connection->get()));
  std::vector<std::string> arguments = {"--worker-fd",     std::to_string(kPassedFd),
                                        "--shares-fd",     std::to_string(kPassedFd + 1),
                                        "--session",       std::to_string(session),
                                        "--parent-pid",    std::to_string(getpid()),
                                        "--driver",        options_.driver,
                                        "--log",           options_.log_word,
                                        "--priorities",    options_.priorities,
                                        "--sandbox",       options_.sandbox_word,
                                        "--worker-user",   options_.worker_user,
                                        "--worker-root",   options_.private_root ? "private" : "machine",
                                        "--hello-timeout", std::to_string(options_.hello_timeout_s)};
  if (!shared_.path().empty()) arguments.insert(arguments.end(), {"--shared-memory", shared_.path()});
  if (options_.calls == CallFilter::kRefusingList) arguments.insert(arguments.end(), {"--calls", "refuse"});
  if (!wish.gpus.empty()) arguments.insert(arguments.end(), {"--gpus", wish.gpus});
  std::vector<int> passed = {line->second.get(), shares->second.get()};
  const auto pass = [&](const char* option, int fd) {
    arguments.insert(arguments.end(), {option, std::to_string(kPassedFd + static_cast<int>(passed.size()))});
    passed.push_back(fd);
  };
  pass("--gate-fd", gate->worker_gate_fd());
  pass("--report-fd", gate->report_fd());
  pass("--event-fd", gate->event_fd());
  std::optional<DeviceSlot> device_slot;
  if (options_.driver == "emulator") {
    Result<std::shared_ptr<EmulatedDeviceMemory>> devices = EmulatedDevices();
    if (!devices.ok()) return devices.status();
    Result<DeviceSlot> taken = DeviceSlot::Take(std::move(devices).value());
    if (!taken.ok()) return taken.status();
    device_slot.emplace(std::move(taken).value());
    pass("--device-page-fd", device_slot->fd());
    arguments.insert(arguments.end(), {"--device-slot", std::to_string(device_slot->number())});
  }
  Result<UniqueFd> images = options_.image_gib > 0 ? images_.Connect() : UniqueFd();
  if (!images.ok()) LogWarning("a session without images of others: {}", images.status().message());
  if (images.ok() && images->valid()) pass("--images-fd", images->get());
  WorkerUids::Lease lease;
  if (!options_.worker_uids.empty()) {
    Result<WorkerUids::Lease> taken = uids_.Take();
    if (!taken.ok()) return taken.status();
    lease = std::move(taken).value();
    arguments.insert(arguments.end(), {"--worker-uid", std::to_string(lease.uid)});
  }
  Result<pid_t> pid = StartSelf(logs_, WorkerLogName(session), arguments, passed, WorkerEnvironment());
  if (!pid.ok()) return pid.status();
  if (lease.uid != 0) uid_locks_[*pid] = std::move(lease.lock);
  // Since 5.3 the kernel has them; a session that the broker cannot watch has no share.
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  if (!pidfd.valid() && options_.vgpus) LogWarning("the broker cannot watch worker {}: errno {}", *pid, errno);
  if (device_slot) {
    device_slot->Bind(*pid);
    device_slots_.emplace(*pid, std::move(*device_slot));
  }
  return Process{*pid,
                 session,
                 std::move(gate).value(),
                 std::move(pidfd),
                 std::move(shares->first),
                 std::move(line->first),
                 MonotonicNs() + ready_ns_};
}

WorkerPool::Kind& WorkerPool::KindOf(const WorkerWish& wish) {
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return SameDriver(wish, kind.like); });
  if (found != kinds_.end()) {
    kinds_.splice(kinds_.begin(), kinds_, found);
  } else {
    if (kinds_.size() == kKindsMax) {
      EndSurplus(kinds_.back(), 0);
      kinds_.pop_back();
    }
    kinds_.push_front({.id = next_kind_++, .like = wish, .demand = {}});
  }
  return kinds_.front();
}

Result<WorkerPool::Process> WorkerPool::TakeOrStart(const Kind& kind, const WorkerWish& wish, UniqueFd& connection) {
  // One that has waited has a context.
  if (!wish.context_bytes.empty()) return Start(wish, &connection);
  for (const bool ready : {true, false}) {
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const auto waiting = next++;
      if (waiting->kind != kind.id || waiting->ready != ready) continue;
      if (!LimitMemory(wish, waiting->process.gate).ok() || !SendClient(waiting->process.line.get(), connection.get()).ok()) {
        End(waiting);  // it serves nobody
        continue;
      }
      Process process = std::move(waiting->process);
      waiting_.erase(waiting);
      return process;
    }
  }
  return Start(wish, &connection);
}

Result<WorkerPool::Process> WorkerPool::Serve(const WorkerWish& wish, UniqueFd& connection) {
  const Kind& kind = KindOf(wish);
  Result<Process> process = TakeOrStart(kind, wish, connection);
  if (!process.ok()) return process;
  connection.reset();
  begun_[process->pid] = {kind.id, MonotonicNs(), process->ready_ns};
  served_ = true;
  failing_ = false;
  return process;
}

WorkerPool::Need WorkerPool::NeedOf(Kind& kind, uint64_t now_ns) {
  const size_t demand = kind.demand.Peak(now_ns, ready_ns_ + kBurstNs);
  WakeAt(kind.demand.next_ns());
  // Who runs a server for one job has use for one process, made in advance, unless the job is many short programs.
  const bool wanted_by_last = &kind == &kinds_.front() && (options_.owner_fd < 0 || !served_);
  if (options_.warm_workers) return {wanted_by_last ? *options_.warm_workers : 0, demand > 0};
  const size_t wanted = std::max<size_t>(wanted_by_last ? 1 : 0, demand);
  WarmBounds bounds;
  bounds.device_free_bytes = kind.device_free_bytes;
  if (!options_.worker_uids.empty()) bounds.users = options_.worker_uids.size();
  if (wanted > 1) bounds.host_free_bytes = HostMemoryFree();
  return {std::min(wanted, WarmWorkersWithin(bounds)), demand > 0};
}

void WorkerPool::WarmUp() {
  next_ns_ = kNoDeadline;
  if (closed_) return;
  const uint64_t now_ns = MonotonicNs();
  if (now_ns < none_until_ns_) return WakeAt(none_until_ns_);
  size_t room = kWarmMax;
  for (Kind& kind : kinds_) {
    Need need = NeedOf(kind, now_ns);
    need.workers = std::min(need.workers, room);
    room -= need.workers;
    const size_t there = EndSurplus(kind, need.workers);
    if (there == need.workers) {
      kind.missing_since_ns = 0;
    } else {
      StartMissing(kind, need.workers - there, need.at_once, now_ns);
    }
  }
}

void WorkerPool::StartMissing(Kind& kind, size_t missing, bool at_once, uint64_t now_ns) {
  if (failing_) return;
  if (kind.missing_since_ns == 0) kind.missing_since_ns = now_ns;
  const uint64_t due_ns = at_once || !served_ ? now_ns : kind.missing_since_ns + kPauseNs;
  if (now_ns < due_ns) return WakeAt(due_ns);
  for (size_t at = Starting(now_ns); missing > 0 && at < starts_max_; --missing, ++at) {
    Result<Process> process = Start(kind.like, nullptr);
    if (!process.ok()) {
      failing_ = true;
      return LogWarning("no worker is started in advance: {}", process.status().message());
    }
    LogDebug("worker {} waits for a session", process->pid);
    waiting_.push_back({std::move(process).value(), kind.id, now_ns});
  }
}

size_t WorkerPool::EndSurplus(const Kind& kind, size_t target) {
  auto there = static_cast<size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.kind == kind.id; }));
  for (auto last = waiting_.end(); there > target;) {
    --last;
    if (last->kind != kind.id) continue;
    const auto youngest = last++;
    End(youngest);
    --there;
  }
  return there;
}

void WorkerPool::End(std::list<Waiting>::iterator waiting) {
  LogDebug("worker {} waits no longer", waiting->process.pid);
  ending_.insert(waiting->process.pid);
  waiting_.erase(waiting);
}

size_t WorkerPool::Starting(uint64_t now_ns) {
  auto starting =
      static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) { return !waiting.ready; }));
  for (const auto& [pid, begun] : begun_) {
    if (begun.ready_ns <= now_ns) continue;
    ++starting;
    WakeAt(begun.ready_ns);
  }
  return starting;
}

void WorkerPool::Watch(std::vector<pollfd>* watched) const {
  for (const Waiting& waiting : waiting_) watched->push_back({waiting.process.line.get(), POLLIN, 0});
}

void WorkerPool::Hear() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto waiting = next++;
    Result<WorkerSays> said = HearWorker(waiting->process.line.get());
    while (said.ok() && said->word == WorkerWord::kMakesContext && !waiting->ready) {
      waiting->context_gpu = said->gpu;
      said = HearWorker(waiting->process.line.get());
    }
    if (said.ok() && said->word == WorkerWord::kReady && !waiting->ready) {
      waiting->ready = true;
      waiting->process.ready_ns = 0;
      waiting->context_gpu = said->gpu;
      // What is new counts as much as all before.
      ready_ns_ = std::min((ready_ns_ + MonotonicNs() - waiting->started_ns) / 2, kReadyMaxNs);
      for (Kind& kind : kinds_) {
        if (kind.id == waiting->kind) kind.device_free_bytes = said->bytes;
      }
    } else if (said.status().code() != StatusCode::kTimedOut) {
      // It ends, or can serve nobody: the next session is to find another one, or none.
      failing_ = true;
      dead_.insert(waiting->process.pid);
      waiting_.erase(waiting);
    }
  }
}

std::set<pid_t> WorkerPool::MakingContexts(const GpuUuid& gpu) const {
  std::set<pid_t> making;
  for (const Waiting& waiting : waiting_) {
    if (!waiting.ready && waiting.context_gpu == gpu && gpu != GpuUuid{}) making.insert(waiting.process.pid);
  }
  return making;
}

uint64_t WorkerPool::ContextBytes(const GpuUuid& gpu) const {
  const auto found = std::find(gpus_.begin(), gpus_.end(), gpu);
  const auto index = static_cast<size_t>(found - gpus_.begin());
  if (index >= context_bytes_.size()) return 0;
  const auto count = std::count_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& waiting) { return waiting.ready && waiting.context_gpu == gpu; });
  return context_bytes_[index] * static_cast<uint64_t>(count);
}

void WorkerPool::GiveBack() {
  if (!waiting_.empty()) LogInfo("{} workers in advance end: a session needs the memory", waiting_.size());
  while (!waiting_.empty()) End(waiting_.begin());
  none_until_ns_ = MonotonicNs() + kGivenBackNs;
}

bool WorkerPool::Forget(pid_t pid) {
  uid_locks_.erase(pid);
  device_slots_.erase(pid);
  if (const auto begun = begun_.find(pid); begun != begun_.end()) {
    for (Kind& kind : kinds_) {
      if (kind.id == begun->second.kind) kind.demand.Note(begun->second.began_ns, MonotonicNs());
    }
    begun_.erase(begun);
    WakeAt(0);
    return false;
  }
  if (ending_.erase(pid) > 0) return false;
  if (dead_.erase(pid) > 0) return true;
  const bool waited = waiting_.remove_if([pid](const Waiting& waiting) { return waiting.process.pid == pid; }) > 0;
  failing_ = failing_ || waited;
  return waited;
}

void WorkerPool::WakeAt(uint64_t ns) { next_ns_ = std::min(next_ns_, ns); }

void WorkerPool::Close() {
  closed_ = true;
  next_ns_ = kNoDeadline;
  while (!waiting_.empty()) End(waiting_.begin());
}

}  // namespace tessera
