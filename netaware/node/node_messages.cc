#include "netaware/node/node_messages.h"

#include <algorithm>
#include <span>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kReasonBytesMax = 1'024;

void FillIn(const NodeBeat& beat, control::v1::Beat* message) {
  for (const NodeBeat::Others& others : beat.others) {
    control::v1::GpuOthers* const of_gpu = message->add_others();
    of_gpu->set_share(others.share);
    of_gpu->set_memory_bytes(others.memory_bytes);
  }
  for (const NodeBeat::Grant& grant : beat.grants) {
    control::v1::NodeGrant* const there = message->add_grants();
    there->set_grant(grant.grant);
    there->set_is_held(grant.is_held);
    there->set_sessions(grant.sessions);
  }
}

void FillIn(const ServerDevice& device, control::v1::NodeGpu* message) {
  message->set_model(device.model);
  message->set_pci(device.pci);
  if (device.numa) message->set_numa(*device.numa);
  if (device.pci_group) message->set_pci_group(*device.pci_group);
}

}  // namespace

ServerVgpus VgpusOf(const control::v1::VgpuList& list) {
  ServerVgpus vgpus;
  for (const control::v1::Vgpu& vgpu : list.vgpus()) {
    vgpus.vgpus.push_back({.name = vgpu.name(),
                           .gpu = vgpu.gpu_uuid(),
                           .request = vgpu.spec().request(),
                           .memory_bytes = vgpu.spec().memory_bytes(),
                           .processes = std::max(vgpu.spec().processes(), 1U),
                           .sessions = vgpu.sessions(),
                           .is_of_api = vgpu.made_by() == "api",
                           .is_in_force = vgpu.problem().empty()});
  }
  for (const control::v1::ServerGpu& gpu : list.gpus()) {
    vgpus.gpus.push_back({gpu.uuid(),
                          gpu.memory_for_vgpus_bytes(),
                          gpu.context_bytes(),
                          gpu.kept_share(),
                          {gpu.isolations().begin(), gpu.isolations().end()},
                          {gpu.priorities().begin(), gpu.priorities().end()}});
  }
  return vgpus;
}

control::v1::CreateRequest CreateOf(const WantedVgpu& vgpu) {
  control::v1::CreateRequest request;
  request.set_name(vgpu.name);
  request.set_gpu(vgpu.gpu);
  control::v1::VgpuSpec* const spec = request.mutable_spec();
  spec->set_request(vgpu.request);
  spec->set_limit(vgpu.limit);
  spec->set_memory_bytes(vgpu.memory_bytes);
  spec->set_processes(vgpu.processes);
  spec->set_isolation(vgpu.isolation);
  spec->set_priority(vgpu.priority);
  spec->mutable_owners()->add_holders(vgpu.owner);
  return request;
}

NodeWelcome WelcomeOf(const control::v1::Welcome& message) {
  return {.cluster = message.cluster(),
          .epoch = message.epoch(),
          .ticket_keys = {message.ticket_keys().begin(), message.ticket_keys().end()},
          .now_ms = message.now_ms()};
}

NodeOrder OrderOf(const control::v1::Order& message) {
  NodeOrder order{.number = message.number(), .grant = message.grant(), .until_ms = message.until_ms()};
  switch (message.kind()) {
    case control::v1::Order::HOLD: order.kind = NodeOrder::Kind::kHold; break;
    case control::v1::Order::CANCEL: order.kind = NodeOrder::Kind::kCancel; break;
    case control::v1::Order::CONFIRM: order.kind = NodeOrder::Kind::kConfirm; break;
    case control::v1::Order::RELEASE: order.kind = NodeOrder::Kind::kRelease; break;
    default: break;  // the placer is of another release
  }
  const std::span<const std::byte> ticket = std::as_bytes(std::span(message.ticket()));
  order.ticket.assign(ticket.begin(), ticket.end());
  return order;
}

control::v1::FromNode MessageOf(const NodeBeat& beat) {
  control::v1::FromNode message;
  FillIn(beat, message.mutable_beat());
  return message;
}

control::v1::FromNode MessageOf(uint64_t order, const Status& status) {
  control::v1::FromNode message;
  message.mutable_answer()->set_number(order);
  message.mutable_answer()->set_done(status.ok());
  message.mutable_answer()->set_reason(Printable(status.message(), kReasonBytesMax));
  return message;
}

control::v1::FromNode RegistrationOf(const NodeServer& server, const std::vector<ServerGpu>& gpus, const NodeBeat& beat) {
  control::v1::FromNode message;
  control::v1::Registration* const registration = message.mutable_registration();
  registration->set_server(server.server);
  for (const std::string& address : server.addresses) registration->add_addresses(address);
  for (const ServerGpu& gpu : gpus) {
    control::v1::NodeGpu* const of_gpu = registration->add_gpus();
    of_gpu->set_uuid(gpu.uuid);
    if (const auto device = server.devices.find(gpu.uuid); device != server.devices.end()) FillIn(device->second, of_gpu);
    of_gpu->set_memory_bytes(gpu.memory_bytes);
    of_gpu->set_context_bytes(gpu.context_bytes);
    of_gpu->set_kept_share(gpu.kept_share);
    for (const std::string& isolation : gpu.isolations) of_gpu->add_isolations(isolation);
    for (const std::string& priority : gpu.priorities) of_gpu->add_priorities(priority);
  }
  registration->set_host(server.host);
  registration->set_takes_no_tickets(!server.takes_tickets);
  registration->set_release(TESSERA_VERSION);
  FillIn(beat, registration->mutable_state());
  return message;
}

}  // namespace tessera
