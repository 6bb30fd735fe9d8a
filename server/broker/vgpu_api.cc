#include "server/broker/vgpu_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/base/bytes_text.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"
#include "server/broker/gpu_name.h"
#include "server/broker/kept_answer.h"

namespace tessera {
namespace {

VgpuAnswer Refuse(CallCode code, std::string sentence) { return {code, std::move(sentence), {}}; }

VgpuAnswer Refuse(const Status& status) {
  const bool full = status.code() == StatusCode::kResourceExhausted;
  return Refuse(full ? CallCode::kResourceExhausted : CallCode::kInvalidArgument, status.message());
}

// Whether it is not there or another's is nobody's business.
VgpuAnswer NoSuch(std::string_view name) {
  return Refuse(CallCode::kNotFound,
                fmt::format("no vGPU '{}' for you here: tessera vgpu list has those that are", Printable(name)));
}

bool IsAmong(std::string_view holder, const std::vector<std::string>& administrators) {
  return std::ranges::find(administrators, holder) != administrators.end();
}

// So much of a GPU's memory beside a context of each of `processes`, in whole pieces of those that it is had in. 0, which is no
// limit, for a share that is none, and where the GPU's memory is not known.
uint64_t PartOf(const Broker::GpuMemory& memory, double share, uint32_t processes) {
  constexpr uint64_t kPieceBytes = uint64_t{2} << 20;
  if (!(share > 0 && share <= 1) || memory.for_vgpus_bytes == 0) return 0;
  const auto pieces = static_cast<uint64_t>(static_cast<double>(memory.for_vgpus_bytes / kPieceBytes) * share);
  const uint64_t context_pieces = (memory.context_bytes + kPieceBytes - 1) / kPieceBytes * processes;
  // One piece at least, also of a share that is less than one: no limit at all is another thing.
  return (pieces > context_pieces ? pieces - context_pieces : 1) * kPieceBytes;
}

std::string Sessions(uint32_t sessions) { return fmt::format("{} session{}", sessions, sessions == 1 ? "" : "s"); }

// What fields and annotations say of a vGPU of this name.
Result<AnnotatedFields> SaidOf(const std::string& name, const VgpuFields& fields) {
  Result<AnnotatedFields> said = ReadAnnotations(
      fields.annotations, {.request = fields.request, .limit = fields.limit, .memory_bytes = fields.memory_bytes});
  if (said.ok()) return said;
  return Status(said.status().code(), fmt::format("vGPU '{}': {}", Printable(name), said.status().message()));
}

// Which change it is, for sentences.
std::string AboutOf(const VgpuCall& call) {
  return call.kind == VgpuCall::Kind::kImport ? Printable(call.path, VgpuCall::kPathBytesMax)
                                              : fmt::format("vGPU '{}'", Printable(call.name));
}

// Lays the fields over a vGPU; `said`: SaidOf() them. Names and shares are AdmitVgpu()'s to check.
Status Apply(const VgpuFields& fields, const AnnotatedFields& said, FileVgpu* vgpu) {
  const std::string who = fmt::format("vGPU '{}'", Printable(vgpu->spec.name));
  const auto invalid = [&](const std::string& what) { return Status(StatusCode::kInvalidArgument, who + ": " + what); };
  vgpu->spec.request = said.request.value_or(vgpu->spec.request);
  vgpu->spec.limit = said.limit.value_or(vgpu->spec.limit);
  vgpu->spec.memory_bytes = said.memory_bytes.value_or(vgpu->spec.memory_bytes);
  vgpu->spec.sm_percent = said.sm_percent.value_or(vgpu->spec.sm_percent);
  vgpu->spec.processes = fields.processes.value_or(vgpu->spec.processes);
  vgpu->spec.max_sessions = fields.max_sessions.value_or(vgpu->spec.max_sessions);
  if (fields.priority && !ParsePriority(*fields.priority, &vgpu->spec.priority)) {
    return invalid(fmt::format("priority '{}' is none of protected, normal, best-effort", Printable(*fields.priority)));
  }
  if (fields.isolation && *fields.isolation != kIsolation)
    return invalid(
        fmt::format("isolation '{}' is none that this server has: there is {}", Printable(*fields.isolation), kIsolation));
  if (fields.overrun && !ParseOverrun(*fields.overrun, &vgpu->spec.overrun)) {
    return invalid(fmt::format("overrun '{}' is neither bill nor end", Printable(*fields.overrun)));
  }
  if (!fields.owners) return Status::Ok();
  if (fields.owners->size() > VgpuCall::kOwnersMax) {
    return invalid(fmt::format("owners: {} of them are {} more than {}", fields.owners->size(),
                               fields.owners->size() - VgpuCall::kOwnersMax, VgpuCall::kOwnersMax));
  }
  for (const std::string& owner : *fields.owners) {
    if (!UserOf(owner) && !IsNameHolder(owner)) {
      return invalid(fmt::format("owners: '{}' is no owner: write uid:N, or name:X of a certificate", Printable(owner)));
    }
  }
  vgpu->owners = *fields.owners;
  return Status::Ok();
}

}  // namespace

bool MaySee(const ShownVgpu& view, std::string_view holder, const std::vector<std::string>& administrators) {
  return (view.problem.empty() && view.vgpu.IsFor(holder)) || IsAmong(holder, administrators);
}

ShownVgpu VgpuApi::ViewOf(const BookedVgpu& vgpu) const {
  return {vgpu, GpuName(broker_.gpus()[vgpu.gpu]), broker_.SessionsIn(vgpu.gpu, vgpu.spec.name)};
}

ShownVgpu VgpuApi::ViewOf(const std::string& name, const VgpuBook::Aside& aside) {
  return {.vgpu = {.spec = {.name = name}, .made_by = MadeBy::kApi}, .problem = aside.why};
}

// Tokens wait meanwhile: what is the same for all of them is found once.
VgpuList VgpuApi::All() {
  if (all_ != nullptr && all_changes_ == broker_.changes()) return all_;
  const std::vector<std::map<std::string_view, uint32_t>> sessions = broker_.SessionsByVgpu();
  std::vector<std::string> gpus;
  for (const GpusMessage::Uuid& uuid : broker_.gpus()) gpus.push_back(GpuName(uuid));
  std::vector<ShownVgpu> views;
  for (const auto& [name, vgpu] : broker_.book().vgpus()) {
    const auto found = sessions[vgpu.gpu].find(name);
    views.push_back({vgpu, gpus[vgpu.gpu], found == sessions[vgpu.gpu].end() ? 0 : found->second});
  }
  if (!broker_.book().aside().empty()) {
    for (const auto& [name, aside] : broker_.book().aside()) views.push_back(ViewOf(name, aside));
    std::ranges::stable_sort(views, {}, [](const ShownVgpu& view) -> const std::string& { return view.vgpu.spec.name; });
  }
  all_ = std::make_shared<const std::vector<ShownVgpu>>(std::move(views));
  all_changes_ = broker_.changes();
  return all_;
}

VgpuAnswer AnswerFrom(const std::vector<ShownVgpu>& all, const VgpuCall& call, const std::vector<std::string>& administrators) {
  const bool one = call.kind == VgpuCall::Kind::kGet;
  VgpuAnswer answer;
  for (const ShownVgpu& view : all) {
    if (one && view.vgpu.spec.name != call.name) continue;
    if (MaySee(view, call.holder, administrators)) answer.vgpus.push_back(view);
  }
  return one && answer.vgpus.empty() ? NoSuch(call.name) : answer;
}

VgpuAnswer VgpuApi::Do(const VgpuCall& call, int64_t now_ns) {
  const bool reads = call.kind == VgpuCall::Kind::kGet || call.kind == VgpuCall::Kind::kList;
  if (!reads) return Change(call, now_ns);
  VgpuAnswer answer{.all = All(), .gpus = Gpus()};
  if (call.kind == VgpuCall::Kind::kGet) answer.memory = MemoryOf(call.name);
  return answer;
}

Gpu::Memory VgpuApi::MemoryOf(const std::string& name) const {
  const BookedVgpu* const booked = broker_.book().Find(name);
  if (booked == nullptr) return {};
  const Gpu& gpu = broker_.gpu(booked->gpu);
  const std::optional<VgpuId> id = gpu.FindVgpu(name);
  return id ? gpu.MemoryHeldBy(*id) : Gpu::Memory{};
}

GpuList VgpuApi::Gpus() {
  if (gpus_ != nullptr) return gpus_;
  std::vector<ShownGpu> gpus;
  for (uint32_t row = 0; row < broker_.gpus().size(); ++row) {
    const Broker::GpuMemory memory = broker_.memory(row);
    std::vector<std::string> priorities;
    for (const Priority priority : broker_.priorities(row)) priorities.emplace_back(PriorityName(priority));
    gpus.push_back({GpuName(broker_.gpus()[row]), memory.for_vgpus_bytes, memory.context_bytes, broker_.kept_share(),
                    std::move(priorities)});
  }
  gpus_ = std::make_shared<const std::vector<ShownGpu>>(std::move(gpus));
  return gpus_;
}

VgpuAnswer VgpuApi::Change(const VgpuCall& call, int64_t now_ns) {
  if (!IsAmong(call.holder, administrators_)) {
    const std::string who =
        call.holder == kAnonymousHolder ? "who has no number in the server's user namespace, as in its container," : call.holder;
    return Refuse(
        CallCode::kPermissionDenied,
        fmt::format("{} may not change vGPUs: only root, the server's own user and those of tesserad --admin may", who));
  }
  if (call.request_id.size() > VgpuCall::kRequestIdBytesMax) {
    return Refuse(CallCode::kInvalidArgument,
                  fmt::format("request_id: {} bytes are {} more than {}", call.request_id.size(),
                              call.request_id.size() - VgpuCall::kRequestIdBytesMax, VgpuCall::kRequestIdBytesMax));
  }
  if (call.request_id.empty()) {
    VgpuAnswer answer = Act(call, now_ns);
    if (to_keep_) broker_.SayKept(*std::exchange(to_keep_, std::nullopt));
    return answer;
  }
  const uint64_t digest = DigestOf(call);
  const AnsweredRequest* const before = broker_.answered().Find(call.holder, call.request_id);
  // What another release has kept in another form counts as forgotten.
  if (std::optional<KeptAnswer> kept = before == nullptr ? std::nullopt : KeptAnswerOf(before->answer)) {
    if (before->digest == digest) return std::move(kept->answer);
    return Refuse(CallCode::kAborted, fmt::format("request_id '{}' was that of another request, about {}: take a new one",
                                                  Printable(call.request_id), kept->about));
  }
  KeptAnswer kept{AboutOf(call), Act(call, now_ns)};
  // One change and its answer are kept together, or neither.
  std::string bytes = BytesOf(kept);
  if (!bytes.empty()) broker_.SayAnswered({to_keep_.has_value(), {call.holder, call.request_id, digest, std::move(bytes)}});
  if (to_keep_) broker_.SayKept(*std::exchange(to_keep_, std::nullopt));
  return std::move(kept.answer);
}

VgpuAnswer VgpuApi::Act(const VgpuCall& call, int64_t now_ns) {
  switch (call.kind) {
    case VgpuCall::Kind::kCreate: return Create(call, now_ns);
    case VgpuCall::Kind::kUpdate: return Update(call, now_ns);
    case VgpuCall::Kind::kImport: return Import(call, now_ns);
    default: return Delete(call, now_ns);
  }
}

VgpuAnswer VgpuApi::Create(const VgpuCall& call, int64_t now_ns) {
  if (call.name == kDefaultVgpu) {
    return Refuse(CallCode::kInvalidArgument,
                  fmt::format("name '{}' is that of the vGPU of sessions that name none: take another", kDefaultVgpu));
  }
  const Result<uint32_t> gpu = FindGpu(call.fields.gpu.value_or("0"), broker_.gpus());
  if (!gpu.ok()) return Refuse(CallCode::kInvalidArgument, fmt::format("gpu: {}", gpu.status().message()));
  if (std::optional<VgpuAnswer> taken = NameIsTaken(call.name, gpu.value())) return *taken;
  FileVgpu vgpu{.spec = {.name = call.name, .request = broker_.default_request()}, .gpu = gpu.value()};
  const Result<AnnotatedFields> said = SaidOf(call.name, call.fields);
  if (!said.ok()) return Refuse(said.status());
  if (const Status status = Apply(call.fields, said.value(), &vgpu); !status.ok()) return Refuse(status);
  if (!said.value().memory_bytes)
    vgpu.spec.memory_bytes = PartOf(broker_.memory(vgpu.gpu), vgpu.spec.request, vgpu.spec.processes);
  return Put(vgpu, now_ns);
}

std::optional<VgpuAnswer> VgpuApi::NameIsTaken(const std::string& name, uint32_t gpu) const {
  if (const BookedVgpu* const there = broker_.book().Find(name); there != nullptr) {
    return Refuse(CallCode::kAlreadyExists,
                  fmt::format("vGPU '{}' is there already, made by the {}: take another name", name, MadeByName(there->made_by)));
  }
  if (broker_.book().aside().contains(name)) return Refuse(CallCode::kAlreadyExists, NotInForce(name));
  if (const uint32_t sessions = broker_.SessionsIn(gpu, name); sessions > 0) {
    return Refuse(CallCode::kFailedPrecondition,
                  fmt::format("the vGPU '{}' that was there before goes with its {}: end them, or take another name", name,
                              Sessions(sessions)));
  }
  return std::nullopt;
}

std::string VgpuApi::NotInForce(const std::string& name) const {
  return fmt::format("vGPU '{}' is there and not in force: {}; delete it, and create it anew", name,
                     broker_.book().aside().at(name).why);
}

VgpuAnswer VgpuApi::Update(const VgpuCall& call, int64_t now_ns) {
  if (broker_.book().aside().contains(call.name)) return Refuse(CallCode::kFailedPrecondition, NotInForce(call.name));
  const BookedVgpu* const there = broker_.book().Find(call.name);
  if (std::optional<VgpuAnswer> refusal = Refusal(call, there)) return *refusal;
  FileVgpu vgpu{there->spec, there->gpu, there->owners};
  if (call.fields.gpu) {
    const Result<uint32_t> gpu = FindGpu(*call.fields.gpu, broker_.gpus());
    if (!gpu.ok() || gpu.value() != there->gpu) {
      return Refuse(
          CallCode::kInvalidArgument,
          fmt::format("vGPU '{}': gpu: it stays on GPU {}: delete it, and create it on another", call.name, there->gpu));
    }
  }
  const Result<AnnotatedFields> said = SaidOf(call.name, call.fields);
  if (!said.ok()) return Refuse(said.status());
  if (const Status status = Apply(call.fields, said.value(), &vgpu); !status.ok()) return Refuse(status);
  return Put(vgpu, now_ns);
}

VgpuAnswer VgpuApi::Put(const FileVgpu& vgpu, int64_t now_ns) {
  Result<VgpuBook> next = broker_.book().With(vgpu);
  if (!next.ok()) return Refuse(next.status());
  // Nothing is in force that a broker that is started anew would not know.
  std::string kept = next->TextOfApi(broker_.gpus());
  if (kept.size() > KeptMessage::kTextBytesMax) {
    return Refuse(CallCode::kResourceExhausted,
                  fmt::format("vGPU '{}': the API's vGPUs would be {} bytes, {} more than are kept: delete some, or write them "
                              "into the file of vGPUs (tesserad --vgpus)",
                              vgpu.spec.name, kept.size(), kept.size() - KeptMessage::kTextBytesMax));
  }
  const FileVgpu changed[] = {vgpu};
  if (const Status status = broker_.Adopt(std::move(next).value(), changed, now_ns); !status.ok()) return Refuse(status);
  to_keep_ = std::move(kept);
  LogInfo("vGPU {} of the API is in force: request {}, limit {}, {} of memory", vgpu.spec.name, vgpu.spec.request,
          vgpu.spec.limit, vgpu.spec.memory_bytes == 0 ? "no limit" : BytesText(vgpu.spec.memory_bytes));
  return {CallCode::kOk, "", {ViewOf(*broker_.book().Find(vgpu.spec.name))}};
}

VgpuAnswer VgpuApi::Delete(const VgpuCall& call, int64_t now_ns) {
  if (const auto aside = broker_.book().aside().find(call.name); aside != broker_.book().aside().end()) {
    ShownVgpu view = ViewOf(call.name, aside->second);
    broker_.DropAside(call.name);
    to_keep_ = broker_.TextOfApi();
    return {CallCode::kOk, "", {std::move(view)}};
  }
  const BookedVgpu* const there = broker_.book().Find(call.name);
  if (std::optional<VgpuAnswer> refusal = Refusal(call, there)) return *refusal;
  if (call.grace_s > VgpuCall::kGraceSMax) {
    return Refuse(CallCode::kInvalidArgument, fmt::format("grace_s {} is {} above {}", call.grace_s,
                                                          call.grace_s - VgpuCall::kGraceSMax, VgpuCall::kGraceSMax));
  }
  const ShownVgpu view = ViewOf(*there);
  if (view.sessions > 0 && !call.force) {
    return Refuse(CallCode::kFailedPrecondition,
                  fmt::format("vGPU '{}' is used by {}: end them, or delete it by force", call.name, Sessions(view.sessions)));
  }
  Result<VgpuBook> next = broker_.book().Without(call.name);
  if (!next.ok()) return Refuse(next.status());
  if (const Status status = broker_.Adopt(std::move(next).value(), {}, now_ns); !status.ok()) {
    return Refuse(CallCode::kFailedPrecondition, status.message());
  }
  // Before it is kept that there is none any more: whoever asks once more has a broker that tries again.
  broker_.EndSessionsIn(view.vgpu.gpu, call.name, now_ns + int64_t{call.grace_s} * kSecondNs);
  to_keep_ = broker_.TextOfApi();
  LogInfo("vGPU {} of the API is deleted; it had {}", call.name, Sessions(view.sessions));
  return {CallCode::kOk, "", {view}};
}

std::optional<VgpuAnswer> VgpuApi::Refusal(const VgpuCall& call, const BookedVgpu* there) const {
  if (there == nullptr) return NoSuch(call.name);
  if (there->made_by == MadeBy::kFile) {
    return Refuse(CallCode::kFailedPrecondition,
                  fmt::format("vGPU '{}' was made by the file of vGPUs: change it there (tesserad --vgpus)", call.name));
  }
  if (call.revision != 0 && call.revision != there->revision) {
    return Refuse(
        CallCode::kAborted,
        fmt::format("vGPU '{}': revision {} is not the present one, {}, with request {:.6g}, limit {:.6g}, priority {}: "
                    "look at it again",
                    call.name, call.revision, there->revision, there->spec.request, there->spec.limit,
                    PriorityName(there->spec.priority)));
  }
  return std::nullopt;
}

}  // namespace tessera
