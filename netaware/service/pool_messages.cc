#include "netaware/service/pool_messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantPart;

constexpr size_t kServerBytesMax = Ticket::kNameBytesMax;
constexpr int kAddressesMax = 16;
constexpr int kGpusMax = 64;
constexpr int kModelsMax = 64;
constexpr uint32_t kProcesses = 4;  // of a job that gives no number
constexpr size_t kTextBytesMax = 256;
constexpr int kWordsMax = 8;
constexpr size_t kWordBytesMax = 32;

Status Wrong(std::string why) { return Status(StatusCode::kInvalidArgument, std::move(why)); }

double PartOf(uint32_t share) { return static_cast<double>(share) / kWholeShare; }

// A share from a node's message, in ppm. A value that is no finite number counts as the whole GPU.
uint32_t PpmOf(double share) {
  return static_cast<uint32_t>(std::lround((std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 1) * kWholeShare));
}

Status TakeShare(const char* field, double value, uint32_t* share) {
  if (!std::isfinite(value) || value <= 0 || value > 1)
    return Wrong(fmt::format("{} is above 0 and 1 at most, and not {}", field, value));
  *share = std::max<uint32_t>(1, static_cast<uint32_t>(std::lround(value * kWholeShare)));
  return Status::Ok();
}

// An empty word counts as not given, and leaves `to`.
Status TakeWord(const char* field, const std::string& word, std::initializer_list<std::string_view> words, std::string* to) {
  if (word.empty()) return Status::Ok();
  *to = word;
  if (std::find(words.begin(), words.end(), word) != words.end()) return Status::Ok();
  std::string all;
  for (const std::string_view each : words) all += (all.empty() ? "" : ", ") + std::string(each);
  return Wrong(fmt::format("{} is one of {}, and not '{}'", field, all, Printable(word)));
}

// The words of a server's GPU. An empty list leaves `without`, the default.
template <typename Words>
Status TakeWords(const char* field, const Words& words, std::vector<std::string>* without) {
  if (words.empty()) return Status::Ok();
  if (words.size() > kWordsMax) return Wrong(fmt::format("a GPU has {} {} at most", kWordsMax, field));
  without->assign(words.begin(), words.end());
  for (const std::string& word : *without) {
    if (word.empty() || word.size() > kWordBytesMax || Printable(word) != word)
      return Wrong(fmt::format("each of a GPU's {} has 1 to {} characters that can be printed", field, kWordBytesMax));
  }
  return Status::Ok();
}

const char* WordOf(const GrantView& view) {
  switch (view.state) {
    case Grant::State::kGranted: return "granted";
    case Grant::State::kReleased: return "released";
    case Grant::State::kRevoked: return "revoked";
    case Grant::State::kRefused: return "refused";
    case Grant::State::kLate: return "late";
    default: return "waiting";
  }
}

void FillIn(const GrantAsk& ask, const std::string& request_id, control::v1::PlaceRequest* message) {
  message->set_request_id(request_id);
  message->set_gpus(ask.wish.gpus);
  message->set_share(PartOf(ask.wish.share));
  message->set_limit(PartOf(ask.limit));
  if (ask.wish.memory_bytes) message->set_memory_bytes(*ask.wish.memory_bytes);
  message->set_processes(ask.wish.processes);
  for (const std::string& model : ask.wish.models) message->add_models(model);
  message->set_same_server(ask.wish.same_server);
  message->set_isolation(ask.wish.isolation);
  message->set_priority(ask.wish.priority);
  if (ask.wait_ms >= 0) message->set_wait_ms(ask.wait_ms);
}

// The server of a part, and how to reach it.
void FillIn(const std::string& id, const PlacerCore& core, GrantPart* part) {
  part->set_server(id);
  part->set_host(core.HostOf(id));
  const auto server = core.pool().servers().find(id);
  if (server == core.pool().servers().end()) return;
  for (const std::string& address : server->second.addresses) part->add_addresses(address);
}

}  // namespace

Result<PlacerCore::Ask> AskOf(const control::v1::PlaceRequest& request, std::string holder) {
  PlacerCore::Ask ask;
  ask.holder = std::move(holder);
  ask.request_id = request.request_id();
  ask.wish.gpus = request.gpus() == 0 ? 1 : request.gpus();
  if (ask.wish.gpus > kGpusMax) return Wrong(fmt::format("gpus is {} at most, and not {}", kGpusMax, ask.wish.gpus));
  if (request.has_share()) RETURN_IF_ERROR(TakeShare("share", request.share(), &ask.wish.share));
  if (request.has_limit()) RETURN_IF_ERROR(TakeShare("limit", request.limit(), &ask.limit));
  if (ask.limit < ask.wish.share)
    return Wrong(fmt::format("limit is the share ({}) at least, and not {}", PartOf(ask.wish.share), PartOf(ask.limit)));
  if (request.has_memory_bytes()) {
    if (request.memory_bytes() == 0) return Wrong("memory_bytes is above 0");
    ask.wish.memory_bytes = request.memory_bytes();
  }
  ask.wish.processes = request.processes() == 0 ? kProcesses : request.processes();
  if (ask.wish.processes > Ticket::kProcessesMax)
    return Wrong(fmt::format("processes is {} at most, and not {}", Ticket::kProcessesMax, ask.wish.processes));
  if (request.models_size() > kModelsMax) return Wrong(fmt::format("there are {} models at most", kModelsMax));
  for (const std::string& model : request.models()) {
    if (model.empty() || model.size() > kTextBytesMax) return Wrong(fmt::format("a model has 1 to {} bytes", kTextBytesMax));
    ask.wish.models.push_back(model);
  }
  ask.wish.same_server = request.same_server();
  RETURN_IF_ERROR(TakeWord("isolation", request.isolation(), {"strict", "packed"}, &ask.wish.isolation));
  RETURN_IF_ERROR(TakeWord("priority", request.priority(), {"protected", "normal", "best-effort"}, &ask.wish.priority));
  ask.wait_ms = request.has_wait_ms() ? std::max<int64_t>(0, request.wait_ms()) : -1;
  return ask;
}

control::v1::GrantState MessageOf(const GrantView& view, const PlacerCore& core, bool with_tickets) {
  control::v1::GrantState message;
  message.set_grant(GrantText(view.grant.ask.id));
  message.set_state(WordOf(view));
  if (view.state != Grant::State::kGranted) message.set_reason(view.reason);
  message.set_holder(view.grant.ask.holder);
  FillIn(view.grant.ask, view.grant.request_id, message.mutable_asked());
  for (const PlacedPart& part : view.grant.parts) {
    GrantPart& to = *message.add_parts();
    FillIn(part.server, core, &to);
    to.set_sessions(core.SessionsOf(part.server, view.grant.ask.id));
    for (const PlacedGpu& gpu : part.gpus) {
      control::v1::GrantGpu& one = *to.add_gpus();
      one.set_uuid(gpu.uuid);
      one.set_model(gpu.model);
      one.set_share(PartOf(view.grant.ask.wish.share));
      one.set_limit(PartOf(view.grant.ask.limit));
      one.set_memory_bytes(gpu.memory_bytes);
    }
    if (with_tickets) to.set_ticket(part.ticket.data(), part.ticket.size());
  }
  return message;
}

control::v1::ServerCordon MessageOf(const ServerCordon& cordon, int64_t now_ms) {
  control::v1::ServerCordon message;
  message.set_reason(cordon.reason);
  message.set_by(cordon.by);
  message.set_drains(cordon.drains);
  if (cordon.ends_ms) message.set_ends_in_ms(std::max<int64_t>(0, *cordon.ends_ms - now_ms));
  return message;
}

control::v1::PlanAnswer MessageOf(const Placement& placement, const PlacerCore::Ask& ask, const PlacerCore& core) {
  control::v1::PlanAnswer message;
  switch (placement.outcome) {
    case Placement::Outcome::kPlaced: message.set_outcome("placed"); break;
    case Placement::Outcome::kWaits: message.set_outcome("waits"); break;
    case Placement::Outcome::kNever: message.set_outcome("never"); break;
  }
  message.set_reason(placement.reason);
  for (const ChosenPart& part : placement.parts) {
    GrantPart& to = *message.add_parts();
    FillIn(part.server, core, &to);
    for (const ChosenGpu& gpu : part.gpus) {
      const PoolGpu& is = core.pool().servers().at(part.server).gpus.at(gpu.gpu).is;
      control::v1::GrantGpu& one = *to.add_gpus();
      one.set_uuid(is.uuid);
      one.set_model(is.model);
      one.set_share(PartOf(ask.wish.share));
      one.set_limit(PartOf(ask.limit));
      one.set_memory_bytes(gpu.memory_bytes);
    }
  }
  return message;
}

control::v1::ServerList ServersOf(const PlacerCore& core, int64_t now_ms) {
  control::v1::ServerList list;
  for (const auto& [id, server] : core.pool().servers()) {
    control::v1::ServerState& to = *list.add_servers();
    to.set_server(id);
    for (const std::string& address : server.addresses) to.add_addresses(address);
    to.set_release(core.ReleaseOf(id));
    to.set_away(server.Away(now_ms * 1'000'000));
    to.set_problem(server.NotOffered(now_ms * 1'000'000));
    if (const ServerCordon* const cordon = core.CordonOf(id)) {
      to.set_problem("cordoned" + (cordon->reason.empty() ? "" : ": " + cordon->reason));
      *to.mutable_cordon() = MessageOf(*cordon, now_ms);
    }
    for (const Inventory::Gpu& gpu : server.gpus) {
      control::v1::PoolGpuState& one = *to.add_gpus();
      one.set_uuid(gpu.is.uuid);
      one.set_model(gpu.is.model);
      one.set_granted_share(PartOf(gpu.granted.share));
      one.set_granted_memory_bytes(gpu.granted.memory_bytes);
      one.set_others_share(PartOf(gpu.others.share));
      one.set_others_memory_bytes(gpu.others.memory_bytes);
      one.set_memory_bytes(gpu.is.all.memory_bytes);
      one.set_context_bytes(gpu.is.context_bytes);
      one.set_pci(gpu.is.pci);
      if (gpu.is.numa) one.set_numa(*gpu.is.numa);
      if (gpu.is.pci_group) one.set_pci_group(*gpu.is.pci_group);
      for (const std::string& isolation : gpu.is.isolations) one.add_isolations(isolation);
      for (const std::string& priority : gpu.is.priorities) one.add_priorities(priority);
    }
  }
  return list;
}

Result<JoiningNode> NodeOf(const control::v1::Registration& registration) {
  JoiningNode node;
  node.server.id = registration.server();
  if (node.server.id.empty() || node.server.id.size() > kServerBytesMax || Printable(node.server.id) != node.server.id)
    return Wrong(fmt::format("server is 1 to {} characters that can be printed", kServerBytesMax));
  if (registration.addresses_size() > kAddressesMax || registration.gpus_size() > kGpusMax)
    return Wrong(fmt::format("a server has {} addresses and {} GPUs at most", kAddressesMax, kGpusMax));
  node.host = registration.host().substr(0, kTextBytesMax);
  node.release = Printable(registration.release());
  node.server.takes_tickets = !registration.takes_no_tickets();
  for (const std::string& address : registration.addresses()) {
    if (address.empty() || address.size() > kTextBytesMax || Printable(address) != address)
      return Wrong(fmt::format("an address has 1 to {} characters that can be printed", kTextBytesMax));
    node.server.addresses.push_back(address);
  }
  for (const control::v1::NodeGpu& gpu : registration.gpus()) {
    if (gpu.model().size() > kTextBytesMax) return Wrong(fmt::format("a model has {} bytes at most", kTextBytesMax));
    node.server.gpus.push_back({.uuid = gpu.uuid(),
                                .model = gpu.model(),
                                .all = {kWholeShare, gpu.memory_bytes()},
                                .context_bytes = gpu.context_bytes()});
    PoolGpu& taken = node.server.gpus.back();
    if (gpu.pci().size() > kWordBytesMax || Printable(gpu.pci()) != gpu.pci())
      return Wrong(fmt::format("a GPU's place on PCIe has {} characters at most that can be printed", kWordBytesMax));
    taken.pci = gpu.pci();
    taken.kept_share = PpmOf(gpu.kept_share());
    if (gpu.has_numa()) taken.numa = gpu.numa();
    if (gpu.has_pci_group()) taken.pci_group = gpu.pci_group();
    RETURN_IF_ERROR(TakeWords("isolations", gpu.isolations(), &taken.isolations));
    RETURN_IF_ERROR(TakeWords("priorities", gpu.priorities(), &taken.priorities));
  }
  Result<NodeState> state = NodeStateOf(registration.state(), node.server.gpus.size());
  if (!state.ok()) return state.status();
  node.state = std::move(*state);
  return node;
}

Result<NodeState> NodeStateOf(const control::v1::Beat& beat, size_t gpus) {
  NodeState state;
  if (static_cast<size_t>(beat.others_size()) != gpus)
    return Wrong(fmt::format("a beat tells of {} GPUs, and the server has {}", beat.others_size(), gpus));
  for (const control::v1::GpuOthers& others : beat.others()) {
    state.others.push_back({PpmOf(others.share()), others.memory_bytes()});
  }
  for (const control::v1::NodeGrant& grant : beat.grants()) {
    Result<GrantId> id = GrantOf(grant.grant());
    if (!id.ok()) return id.status();
    state.grants.push_back({*id, grant.is_held(), grant.sessions()});
  }
  return state;
}

control::v1::ToNode MessageOf(const PlacerOrder& order) {
  control::v1::ToNode message;
  control::v1::Order& to = *message.mutable_order();
  to.set_number(order.number);
  switch (order.kind) {
    case PlacerOrder::Kind::kHold: to.set_kind(control::v1::Order::HOLD); break;
    case PlacerOrder::Kind::kCancel: to.set_kind(control::v1::Order::CANCEL); break;
    case PlacerOrder::Kind::kConfirm: to.set_kind(control::v1::Order::CONFIRM); break;
    case PlacerOrder::Kind::kRelease: to.set_kind(control::v1::Order::RELEASE); break;
  }
  to.set_grant(GrantText(order.grant));
  to.set_ticket(order.ticket.data(), order.ticket.size());
  to.set_until_ms(order.until_ms);
  return message;
}

Result<GrantId> GrantOf(const std::string& text) {
  const std::optional<GrantId> id = ParseGrant(text);
  if (id) return *id;
  return Wrong(fmt::format("'{}' is no grant: a grant is {} digits in small letters", Printable(text), 2 * GrantId().size()));
}

grpc::Status NotProtected(const std::string& holder) {
  return {grpc::StatusCode::PERMISSION_DENIED,
          holder +
              " may not ask for --priority protected: ask for normal, or have the placer's policy give this right ([rights] of "
              "tessera-placer --policy)"};
}

grpc::Status GrpcStatusOf(const Status& status) {
  const auto code = [&] {
    switch (status.code()) {
      case StatusCode::kOk: return grpc::StatusCode::OK;
      case StatusCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
      case StatusCode::kNotFound: return grpc::StatusCode::NOT_FOUND;
      case StatusCode::kPermissionDenied: return grpc::StatusCode::PERMISSION_DENIED;
      case StatusCode::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case StatusCode::kUnsupported: return grpc::StatusCode::FAILED_PRECONDITION;
      case StatusCode::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
      default: return grpc::StatusCode::INTERNAL;
    }
  }();
  return {code, status.message()};
}

}  // namespace tessera
