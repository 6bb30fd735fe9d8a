// The part of PlacerCore for the nodes of its servers.
#include <algorithm>
#include <utility>

#include "netaware/service/placer_core.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/gpu_uuid.h"

namespace tessera {
namespace {

using Kind = PlacerOrder::Kind;
using State = Grant::State;

}  // namespace

Status PlacerCore::Join(JoiningNode node, int64_t now_ms) {
  AuditRecord record{
      .actor = node.holder.empty() ? std::string(AuditRecord::kPlacer) : node.holder, .action = "join", .object = node.server.id};
  Status joined = JoinNow(std::move(node), now_ms);
  if (!joined.ok()) {
    record.outcome = AuditRecord::kRefused;
    record.text = joined.message();
    Note(std::move(record), now_ms);
  }
  return joined;
}

Status PlacerCore::JoinNow(JoiningNode node, int64_t now_ms) {
  const std::string id = node.server.id;
  for (const PoolGpu& gpu : node.server.gpus) {
    if (!ParseGpuUuid(gpu.uuid)) return Status(StatusCode::kInvalidArgument, "'" + Printable(gpu.uuid) + "' is no UUID of a GPU");
  }
  node.server.holder = node.holder;
  const std::string stored = StoredServer(node.server, node.host, CordonOf(id));
  const size_t gpus = node.server.gpus.size();
  node.server.host = node.host;
  RETURN_IF_ERROR(pool_.Join(std::move(node.server), now_ms * kNsOfMs));
  hosts_[id] = std::move(node.host);
  releases_[id] = std::move(node.release);
  Note({.actor = node.holder.empty() ? std::string(AuditRecord::kPlacer) : node.holder,
        .action = "join",
        .object = id,
        .text = std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs")},
       now_ms);
  Keep({std::string(kServerKeys) + id, stored}, std::nullopt);
  CompareLedger(id, node.state.grants, now_ms);
  Beat(id, node.state, now_ms);
  return Status::Ok();
}

bool PlacerCore::HasPartAt(const GrantId& grant, const std::string& server) const {
  const auto there = placed_.find(grant);
  return there != placed_.end() &&
         std::ranges::any_of(there->second.parts, [&](const PlacedPart& part) { return part.server == server; });
}

void PlacerCore::CompareLedger(const std::string& server, const std::vector<NodeGrantState>& grants, int64_t now_ms) {
  for (const NodeGrantState& state : grants) {
    const Grant* const grant = book_.Find(state.grant);
    const bool is_ours =
        grant != nullptr && (grant->state == State::kHeld || grant->state == State::kGranted) && HasPartAt(state.grant, server);
    // The grant ended while the server was away, or a placer before this one was about to grant it. A grant in kHolding is
    // placed anew, since the server may have another part for it, from an earlier placement.
    if (!is_ours) {
      Order(server, Kind::kRelease, state.grant, now_ms + options_.ticket_ms);
      book_.Refused(state.grant, server, now_ms);
    } else if (state.is_held && grant->state == State::kGranted) {
      Order(server, Kind::kConfirm, state.grant, 0);
    }
  }
  std::set<GrantId> has;
  for (const NodeGrantState& state : grants) has.insert(state.grant);
  for (const GrantId& id : book_.placed()) {
    if (has.contains(id) || book_.Find(id)->state != State::kGranted) continue;
    for (const PlacedPart& part : placed_.at(id).parts) {
      if (part.server != server) continue;
      LogWarning("server '{}' has lost grant {}: it is to hold it again", Printable(server), GrantText(id));
      Order(server, Kind::kHold, id, now_ms + kHoldMs, part.ticket);
      Order(server, Kind::kConfirm, id, 0);
    }
  }
}

void PlacerCore::CompareBeat(const std::string& server, const std::vector<NodeGrantState>& grants, int64_t now_ms) {
  std::map<GrantId, Kind> wanted;
  for (const NodeGrantState& state : grants) {
    const Grant* const grant = book_.Find(state.grant);
    // A hold for a grant that is in kWaiting or kHolding ends by itself.
    if (grant != nullptr && (grant->state == State::kWaiting || grant->state == State::kHolding)) continue;
    if (grant == nullptr || grant->state > State::kGranted || !HasPartAt(state.grant, server)) {
      wanted[state.grant] = Kind::kRelease;
    } else if (state.is_held && grant->state == State::kGranted) {
      wanted[state.grant] = Kind::kConfirm;
    }
  }
  std::erase_if(differs_, [&](const auto& each) { return each.first.first == server && !wanted.contains(each.first.second); });
  for (const auto& [id, kind] : wanted) {
    const auto [differs, is_new] = differs_.try_emplace({server, id}, now_ms);
    if (is_new || now_ms - differs->second < kDiffersMs) continue;
    differs->second = now_ms;
    Order(server, kind, id, kind == Kind::kRelease ? now_ms + options_.ticket_ms : 0);
  }
}

void PlacerCore::Leave(const std::string& server, int64_t now_ms) {
  if (now_ms != 0) {
    AuditRecord record{.actor = std::string(AuditRecord::kPlacer), .action = "leave", .object = server};
    if (const auto there = pool_.servers().find(server); there != pool_.servers().end()) record.owner = there->second.holder;
    Note(std::move(record), now_ms);
  }
  pool_.Leave(server);
  std::erase_if(differs_, [&](const auto& each) { return each.first.first == server; });
  sessions_.erase(server);
  std::erase_if(holds_asked_, [&](const auto& each) { return each.first.first == server; });
}

void PlacerCore::Beat(const std::string& server, const NodeState& state, int64_t now_ms) {
  pool_.Heard(server, now_ms * kNsOfMs);
  if (const Status status = pool_.SetOthers(server, state.others); !status.ok())
    LogWarning("what server '{}' says of its GPUs is not taken: {}", Printable(server), status.message());
  std::map<GrantId, uint32_t>& sessions = sessions_[server];
  sessions.clear();
  for (const NodeGrantState& each : state.grants) {
    sessions[each.grant] = each.sessions;
    if (each.sessions > 0) book_.Beat(each.grant, now_ms);
  }
  CompareBeat(server, state.grants, now_ms);
}

void PlacerCore::Answered(const std::string& server, uint64_t number, bool done, int64_t now_ms) {
  auto asked = holds_asked_.lower_bound({server, GrantId{}});
  while (asked != holds_asked_.end() && asked->first.first == server && asked->second != number) ++asked;
  // An answer does not count if the same hold was ordered again since, after a search for another place.
  if (asked == holds_asked_.end() || asked->first.first != server) return;
  const GrantId grant = asked->first.second;
  holds_asked_.erase(asked);
  if (done) {
    book_.Held(grant, server);
  } else {
    book_.Refused(grant, server, now_ms);
  }
}

void PlacerCore::Order(const std::string& server, Kind kind, const GrantId& grant, int64_t until_ms,
                       std::vector<std::byte> ticket) {
  const PlacerOrder order{++last_order_, kind, grant, std::move(ticket), until_ms};
  if (kind == Kind::kHold) holds_asked_[{server, grant}] = order.number;
  outside_.Send(server, order);
}

}  // namespace tessera
