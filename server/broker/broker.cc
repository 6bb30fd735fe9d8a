#include "server/broker/broker.h"

#include <fmt/core.h>

#include <algorithm>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "scheduler/policies/policies.h"
#include "server/broker/figures.h"
#include "server/broker/gpu_name.h"

namespace tessera {
namespace {

Status OutOfTurn(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, fmt::format("the daemon sent {} out of turn", what));
}

}  // namespace

Broker::~Broker() {
  for (auto& [number, session] : sessions_) {
    poller_.Remove(session.ring.get());
    poller_.Remove(session.process.get());
  }
  for (const std::unique_ptr<TraceFile>& trace : traces_) trace->Flush();
}

Status Broker::Take(SocketMessage message, int64_t now_ns) {
  const BrokerWord word = BrokerWordOf(message.bytes);
  if (gpus_.empty() && word != BrokerWord::kGpus) return OutOfTurn("something before its GPUs");
  switch (word) {
    case BrokerWord::kGpus: {
      const Result<GpusMessage> gpus = GpusMessage::Decode(message.bytes);
      return gpus.ok() ? TakeGpus(gpus.value(), now_ns) : gpus.status();
    }
    case BrokerWord::kVgpuFile: {
      const Result<VgpuFileMessage> file = VgpuFileMessage::Decode(message.bytes);
      if (!file.ok()) return file.status();
      if (message.fds.size() != 1) return OutOfTurn("a file of vGPUs without its text");
      return TakeFile(file.value(), message.fds[0], now_ns);
    }
    case BrokerWord::kKept: {
      const Result<KeptMessage> kept = KeptMessage::Decode(message.bytes);
      if (!kept.ok()) return kept.status();
      TakeKept(kept.value(), now_ns);
      return Status::Ok();
    }
    case BrokerWord::kTold: {
      const Result<ToldMessage> told = ToldMessage::Decode(message.bytes);
      return told.ok() ? TakeTold(told.value(), message.fds) : told.status();
    }
    case BrokerWord::kAsk: {
      const Result<AskMessage> ask = AskMessage::Decode(message.bytes);
      if (!ask.ok()) return ask.status();
      Answer(ask.value(), now_ns);
      return Status::Ok();
    }
    case BrokerWord::kCame: {
      const Result<CameMessage> came = CameMessage::Decode(message.bytes);
      return came.ok() ? TakeCame(came.value(), std::move(message.fds), now_ns) : came.status();
    }
    case BrokerWord::kLeft: {
      Result<LeftMessage> left = LeftMessage::Decode(message.bytes);
      if (!left.ok()) return left.status();
      Leave(left->session, now_ns);
      return Status::Ok();
    }
    case BrokerWord::kFound: {
      const Result<FoundMessage> found = FoundMessage::Decode(message.bytes);
      if (!found.ok()) return found.status();
      TakeFound(found.value());
      return Status::Ok();
    }
    case BrokerWord::kSeen: {
      const Result<SeenMessage> seen = SeenMessage::Decode(message.bytes);
      if (!seen.ok()) return seen.status();
      TakeSeen(seen.value());
      return Status::Ok();
    }
    default: return OutOfTurn("what no daemon says,");
  }
}

// GPUs.

Status Broker::TakeGpus(const GpusMessage& gpus, int64_t now_ns) {
  if (!gpus_.empty() || gpus.uuids.empty()) return OutOfTurn("its GPUs");
  uuids_ = gpus.uuids;
  for (size_t row = 0; row < uuids_.size(); ++row) {
    const uint64_t context = gpus.context_bytes[row];
    const uint64_t all = gpus.memory_bytes[row];
    const uint64_t waiting = std::min(all, context * gpus.waiting_workers);
    // Where those who wait have all of it there is nothing to give; 0 would say that nothing is known.
    memory_.push_back({all == 0 ? 0 : std::max<uint64_t>(all - waiting, 1), context});
  }
  for (const BrokerOptions::GpuPolicy& policy : options_.policies) {
    if (policy.gpu.empty()) continue;
    if (const Result<uint32_t> gpu = FindGpu(policy.gpu, uuids_); !gpu.ok()) {
      return Status(gpu.status().code(), fmt::format("--policy {}={}: {}", policy.gpu, policy.name, gpu.status().message()));
    }
  }
  for (uint32_t row = 0; row < uuids_.size(); ++row) RETURN_IF_ERROR(MakeGpu(row, now_ns));
  Say(ReadyMessage{TESSERA_VERSION});
  return Status::Ok();
}

std::string Broker::PolicyOf(uint32_t row) const {
  std::string name(kDefaultPolicy);
  for (const BrokerOptions::GpuPolicy& policy : options_.policies) {
    if (policy.gpu.empty() || FindGpu(policy.gpu, uuids_).value() == row) name = policy.name;
  }
  return name;
}

std::vector<Priority> Broker::priorities(uint32_t gpu) const { return PrioritiesOf(PolicyOf(gpu)); }

Status Broker::MakeGpu(uint32_t row, int64_t now_ns) {
  const std::string name = PolicyOf(row);
  const AdmissionRules rules = {.request_zero = options_.has_default,
                                .memory_bytes = memory_[row].for_vgpus_bytes,
                                .context_bytes = memory_[row].context_bytes};
  TracedGpuTime::Sink sink = [](const SchedulerEvent&) {};
  if (!options_.record.empty()) {
    const std::string path = uuids_.size() == 1 ? options_.record : fmt::format("{}.{}", options_.record, row);
    Result<TraceFile> trace = TraceFile::Make(path, name, rules.request_zero);
    if (!trace.ok()) return trace.status();
    traces_.push_back(std::make_unique<TraceFile>(std::move(trace).value()));
    sink = [file = traces_.back().get()](const SchedulerEvent& event) { file->Add(event); };
  }
  Result<std::unique_ptr<Policy>> policy = MakePolicy(name);
  if (!policy.ok()) return policy.status();
  gpus_.push_back(std::make_unique<Gpu>(row, rules, std::move(policy).value(), options_.overrun_after_ns, std::move(sink)));
  return options_.has_default ? gpus_.back()->Add({.name = std::string(kDefaultVgpu)}, now_ns) : Status::Ok();
}

// Sessions.

Status Broker::TakeCame(const CameMessage& came, std::vector<UniqueFd> fds, int64_t now_ns) {
  if (fds.size() != CameMessage::kDescriptors || came.session > Poller::kSessionMax)
    return OutOfTurn("a session without its pages");
  Leave(came.session, now_ns);
  Result<WorkerPages> pages = WorkerPages::Map(fds[0].get(), fds[1].get());
  Status status = pages.status();
  if (status.ok()) status = poller_.Add(fds[2].get(), Poller::Source::kRing, came.session);
  if (status.ok()) status = poller_.Add(fds[3].get(), Poller::Source::kProcess, came.session);
  if (!status.ok()) {
    LogError("session {} (process {}) has the GPU without a share: {}", came.session, came.worker_pid, status.message());
    poller_.Remove(fds[2].get());
    return Status::Ok();
  }
  const auto place = std::ranges::find(places_, came.vgpus, &KeptPlace::vgpus);
  if (place != places_.end()) places_.erase(place);
  Session session{came.session, came.vgpus, std::move(pages).value(), std::move(fds[2]), std::move(fds[3])};
  session.members.resize(gpus_.size());
  session.pages.SayAlive(now_ns);
  Session& there = sessions_.emplace(came.session, std::move(session)).first->second;
  Settle(there, now_ns);
  if (!there.settled && !came.vgpus.empty()) {
    LogWarning("session {} is of '{}', which is not there any more: until a file has it, it is in {}", came.session,
               Printable(came.vgpus), options_.has_default ? kDefaultVgpu : "none, and has no share");
  }
  tick_ns_ = std::min(tick_ns_, now_ns + kTickNs);
  return Status::Ok();
}

void Broker::Leave(uint64_t number, int64_t now_ns) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  ++changes_;
  EndSet(session, now_ns);
  sets_.Forget(number);
  for (size_t row = 0; row < gpus_.size(); ++row) {
    if (session.members[row] != nullptr) gpus_[row]->Leave(session.members[row], now_ns);
  }
  poller_.Remove(session.ring.get());
  poller_.Remove(session.process.get());
  sessions_.erase(found);
  AnswerWaiting(now_ns);
}

void Broker::TakeFound(const FoundMessage& found) {
  const auto session = sessions_.find(found.session);
  if (session == sessions_.end() || found.device >= gpus_.size()) return;
  if (const Gpu::Member* const member = session->second.members[found.device])
    gpus_[found.device]->CountFinding(*member, found.what);
}

void Broker::TakeSeen(const SeenMessage& seen) {
  for (const std::unique_ptr<Gpu>& gpu : gpus_) gpu->BelieveAllMemory();
  for (const SeenMessage::Row& row : seen.rows) {
    const auto session = sessions_.find(row.session);
    if (session == sessions_.end() || row.device >= gpus_.size()) continue;
    if (Gpu::Member* const member = session->second.members[row.device]) Gpu::BoundMemoryOf(*member, row.used_bytes);
  }
}

Gpu& Broker::CountWorkOn(uint32_t row) {
  gpus_[row]->CountWork();
  return *gpus_[row];
}

void Broker::Ring(uint64_t number, int64_t now_ns) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (!session.settled) Settle(session, now_ns);
  const bool too_often = ++session.rings == kRingsMax;
  if (too_often) poller_.Silence(session.ring.get(), number);
  for (size_t row = 0; row < gpus_.size(); ++row) {
    if (session.members[row] == nullptr) continue;
    gpus_[row]->Look(*session.members[row], now_ns);
    gpus_[row]->LookAtMemory(*session.members[row]);
    if (too_often) gpus_[row]->LookOften(now_ns, tick_ns_);
  }
}

// Time.

int64_t Broker::Turn(int64_t now_ns) {
  if (now_ns >= tick_ns_) Tick(now_ns);
  int64_t again_ns = tick_ns_;
  for (const std::unique_ptr<Gpu>& gpu : gpus_) gpu->Turn(now_ns);
  AssembleSets(now_ns);
  for (const std::unique_ptr<Gpu>& gpu : gpus_) again_ns = std::min(again_ns, gpu->again_ns());
  return again_ns;
}

int64_t Broker::HandOverNs() const {
  int64_t first_ns = kNever;
  for (const std::unique_ptr<Gpu>& gpu : gpus_) first_ns = std::min(first_ns, gpu->HandOverNs());
  return first_ns;
}

void Broker::Tick(int64_t now_ns) {
  for (auto& [number, session] : sessions_) {
    session.pages.SayAlive(now_ns);
    if (!session.settled) Settle(session, now_ns);
    if (session.rings >= kRingsMax) poller_.Listen(session.ring.get(), number);
    session.rings = 0;
  }
  for (const std::unique_ptr<Gpu>& gpu : gpus_) {
    gpu->LookAtAllMemory();
    gpu->CountActive(now_ns);
    gpu->WatchLimits(now_ns);
  }
  AnswerWaiting(now_ns);
  FollowSets(now_ns);
  for (const std::unique_ptr<TraceFile>& trace : traces_) trace->Flush();
  if (!gpus_.empty()) {
    Say(AliveMessage());
    if (now_ns >= figures_ns_) SayFigures(now_ns);
    if (now_ns >= reported_ns_) SayReported(now_ns);
  }
  tick_ns_ = now_ns + (sessions_.empty() ? kIdleTickNs : kTickNs);
}

void Broker::SayOwners() {
  if (owners_said_ == changes_ + 1) return;
  owners_said_ = changes_ + 1;
  OwnersMessage message{.is_first = true};
  if (options_.has_default) message.rows.push_back({std::string(kDefaultVgpu), {}});
  size_t bytes = 0;
  for (const auto& [name, vgpu] : book_.vgpus()) {
    if (bytes > OwnersMessage::kTextBytesMax || message.rows.size() == ServerReport::kVgpusMax) {
      Say(message);
      message = {};
      bytes = 0;
    }
    bytes += message.rows.emplace_back(OwnersMessage::Row{name, vgpu.owners}).text_bytes();
  }
  Say(message);
}

void Broker::SayFigures(int64_t now_ns) {
  SayOwners();
  FiguresMessage figures;
  for (const std::unique_ptr<Gpu>& gpu : gpus_) AddFigures(*gpu, now_ns, &figures);
  Say(figures);
  figures_ns_ = now_ns + kFiguresNs;
}

void Broker::SayReported(int64_t now_ns) {
  ReportedMessage reported;
  reported.at_ns = static_cast<uint64_t>(now_ns);
  for (const auto& [number, session] : sessions_) {
    for (uint32_t row = 0; row < gpus_.size(); ++row) {
      if (session.members[row] == nullptr) continue;
      if (gpus_[row]->time().mode() == GpuMode::kFree && !gpus_[row]->TakesMemoryOfOthers(*session.members[row])) continue;
      const RowWatch::Reported& so_far = session.members[row]->reported();
      reported.rows.push_back({number, row, static_cast<uint64_t>(so_far.watched_ns), static_cast<uint64_t>(so_far.busy_ns),
                               gpus_[row]->HeldBy(*session.members[row])});
    }
  }
  if (!reported.rows.empty()) Say(reported);
  reported_ns_ = now_ns + kReportedNs;
}

}  // namespace tessera
