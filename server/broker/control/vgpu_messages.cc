#include "server/broker/control/vgpu_messages.h"

#include <string>
#include <utility>

namespace tessera {
namespace {

VgpuFields FieldsOf(const control::v1::VgpuSpec& spec) {
  VgpuFields fields;
  if (spec.has_request()) fields.request = spec.request();
  if (spec.has_limit()) fields.limit = spec.limit();
  if (spec.has_memory_bytes()) fields.memory_bytes = spec.memory_bytes();
  if (spec.has_priority()) fields.priority = spec.priority();
  if (spec.has_isolation()) fields.isolation = spec.isolation();
  if (spec.has_overrun()) fields.overrun = spec.overrun();
  if (spec.has_max_sessions()) fields.max_sessions = spec.max_sessions();
  if (spec.has_processes()) fields.processes = spec.processes();
  fields.annotations.insert(spec.annotations().begin(), spec.annotations().end());
  if (spec.has_owners()) fields.owners.emplace(spec.owners().holders().begin(), spec.owners().holders().end());
  return fields;
}

void FillInOne(const ShownVgpu& shown, control::v1::Vgpu* message) {
  const BookedVgpu& vgpu = shown.vgpu;
  message->set_name(vgpu.spec.name);
  message->set_gpu(vgpu.gpu);
  message->set_gpu_uuid(shown.gpu);
  message->set_made_by(std::string(MadeByName(vgpu.made_by)));
  message->set_revision(vgpu.revision);
  message->set_sessions(shown.sessions);
  message->set_problem(shown.problem);
  if (!shown.problem.empty()) return;
  control::v1::VgpuSpec* const spec = message->mutable_spec();
  spec->set_request(vgpu.spec.request);
  spec->set_limit(vgpu.spec.limit);
  spec->set_memory_bytes(vgpu.spec.memory_bytes);
  spec->set_priority(std::string(PriorityName(vgpu.spec.priority)));
  spec->set_isolation(std::string(kIsolation));
  spec->set_overrun(std::string(OverrunName(vgpu.spec.overrun)));
  spec->set_max_sessions(vgpu.spec.max_sessions);
  spec->set_processes(vgpu.spec.processes);
  if (vgpu.spec.sm_percent != 0) {
    (*spec->mutable_annotations())[kSmPartitionAnnotation] = std::to_string(vgpu.spec.sm_percent);
  }
  spec->mutable_owners();
  for (const std::string& owner : vgpu.owners) spec->mutable_owners()->add_holders(owner);
}

}  // namespace

VgpuCall CallOf(const control::v1::CreateRequest& request, std::string holder) {
  VgpuFields fields = FieldsOf(request.spec());
  if (!request.gpu().empty()) fields.gpu = request.gpu();
  return {.kind = VgpuCall::Kind::kCreate,
          .holder = std::move(holder),
          .request_id = request.request_id(),
          .name = request.name(),
          .fields = std::move(fields)};
}

VgpuCall CallOf(const control::v1::UpdateRequest& request, std::string holder) {
  return {.kind = VgpuCall::Kind::kUpdate,
          .holder = std::move(holder),
          .request_id = request.request_id(),
          .name = request.name(),
          .fields = FieldsOf(request.spec()),
          .revision = request.revision()};
}

VgpuCall CallOf(const control::v1::DeleteRequest& request, std::string holder) {
  return {.kind = VgpuCall::Kind::kDelete,
          .holder = std::move(holder),
          .request_id = request.request_id(),
          .name = request.name(),
          .revision = request.revision(),
          .force = request.force(),
          .grace_s = request.grace_s()};
}

VgpuCall CallOf(const control::v1::ImportRequest& request, std::string holder) {
  return {.kind = VgpuCall::Kind::kImport,
          .holder = std::move(holder),
          .request_id = request.request_id(),
          .text = request.text(),
          .path = request.path()};
}

VgpuCall CallOf(const control::v1::GetRequest& request, std::string holder) {
  return {.kind = VgpuCall::Kind::kGet, .holder = std::move(holder), .name = request.name()};
}

VgpuCall CallOf(const control::v1::ListRequest& request, std::string holder) {
  return {.kind = VgpuCall::Kind::kList, .holder = std::move(holder)};
}

void FillIn(const VgpuAnswer& answer, control::v1::Vgpu* message) {
  if (answer.vgpus.empty()) return;
  FillInOne(answer.vgpus[0], message);
  if (!answer.memory) return;
  message->set_memory_held_bytes(answer.memory->bytes);
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    (*message->mutable_memory_held_by_kind())[std::string(kMemoryKindNames[kind])] = answer.memory->by_kind[kind];
  }
}

void FillIn(const VgpuAnswer& answer, control::v1::VgpuList* message) {
  for (const ShownVgpu& shown : answer.vgpus) FillInOne(shown, message->add_vgpus());
  if (answer.gpus == nullptr) return;
  for (const ShownGpu& gpu : *answer.gpus) {
    control::v1::ServerGpu* const shown = message->add_gpus();
    shown->set_uuid(gpu.uuid);
    shown->set_memory_for_vgpus_bytes(gpu.memory_for_vgpus_bytes);
    shown->set_context_bytes(gpu.context_bytes);
    shown->set_kept_share(gpu.kept_share);
    shown->add_isolations(std::string(kIsolation));
    for (const std::string& priority : gpu.priorities) shown->add_priorities(priority);
  }
}

grpc::Status GrpcStatusOf(const VgpuAnswer& answer) {
  if (answer.code == CallCode::kOk) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(answer.code), answer.sentence};
}

}  // namespace tessera
