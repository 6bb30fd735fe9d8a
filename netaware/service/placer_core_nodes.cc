// What a placer has to do with the nodes of its servers.
#include <algorithm>
#include <utility>

#include "netaware/service/placer_core.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/gpu_uuid.h"

namespace tessera {
namespace {

using Kind = PlacerOrder::Kind;

constexpr int64_t kNsOfMs = 1'000'000;

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

void PlacerCore::CompareLedger(const std::string& server, const std::vector<NodeGrantState>& grants, int64_t now_ms) {
  std::set<GrantId> has;
  for (const NodeGrantState& state : grants) {
    has.insert(state.grant);
    const auto there = placed_.find(state.grant);
    const Grant* const grant = book_.Find(state.grant);
    const bool is_ours = there != placed_.end() && grant != nullptr &&
                         (grant->state == Grant::State::kHeld || grant->state == Grant::State::kGranted) &&
                         std::ranges::any_of(there->second.parts, [&](const PlacedPart& part) { return part.server == server; });
    if (!is_ours) {
      // It ended while the server was away, or a placer before this one was about to grant it. One that is being held may have
      // another part of the server there, of when it was placed before: it is placed anew.
      Order(server, Kind::kRelease, state.grant, now_ms + options_.ticket_ms);
      book_.Refused(state.grant, server, now_ms);
    } else if (state.is_held && grant->state == Grant::State::kGranted) {
      Order(server, Kind::kConfirm, state.grant, 0);
    }
  }
  for (const auto& [id, placed] : placed_) {
    const Grant* const grant = book_.Find(id);
    if (has.contains(id) || grant == nullptr || grant->state != Grant::State::kGranted) continue;
    for (const PlacedPart& part : placed.parts) {
      if (part.server != server) continue;
      LogWarning("server '{}' has lost grant {}: it is to hold it again", Printable(server), GrantText(id));
      Order(server, Kind::kHold, id, now_ms + kHoldMs, part.ticket);
      Order(server, Kind::kConfirm, id, 0);
    }
  }
}

void PlacerCore::Leave(const std::string& server, int64_t now_ms) {
  if (now_ms != 0) Note({.actor = std::string(AuditRecord::kPlacer), .action = "leave", .object = server}, now_ms);
  pool_.Leave(server);
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
}

void PlacerCore::Answered(const std::string& server, uint64_t number, bool done, int64_t now_ms) {
  auto asked = holds_asked_.lower_bound({server, GrantId{}});
  while (asked != holds_asked_.end() && asked->first.first == server && asked->second != number) ++asked;
  // One that was asked for again since, as another place was looked for, counts no more.
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
