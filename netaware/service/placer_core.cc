#include "netaware/service/placer_core.h"

#include <fmt/core.h>
#include <openssl/sha.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/base/bytes_text.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/gpu_uuid.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

using Kind = PlacerOrder::Kind;

Status Wrong(std::string why) { return Status(StatusCode::kInvalidArgument, std::move(why)); }

Status NoGrant(const GrantId& grant) {
  return Status(StatusCode::kNotFound, fmt::format("there is no grant {}, or it has ended", GrantText(grant)));
}

TicketIsolation IsolationOf(std::string_view word) {
  return word == "packed" ? TicketIsolation::kPacked : TicketIsolation::kStrict;
}

TicketPriority PriorityOf(std::string_view word) {
  if (word == "protected") return TicketPriority::kProtected;
  return word == "best-effort" ? TicketPriority::kBestEffort : TicketPriority::kNormal;
}

// "2 GPUs, 0.5 of each, 1 GiB"
std::string TextOf(const Wish& wish) {
  std::string text = fmt::format("{} GPU{}, {:.6g} of each", wish.gpus, wish.gpus == 1 ? "" : "s",
                                 static_cast<double>(wish.share) / kWholeShare);
  if (wish.memory_bytes) text += ", " + BytesText(*wish.memory_bytes);
  for (const std::string& model : wish.models) text += ", " + Printable(model);
  for (const std::string& word : {wish.isolation, wish.priority}) {
    if (word != "strict" && word != "normal") text += ", " + word;
  }
  return text;
}

std::vector<std::string> ServersOf(const PlacedGrant& placed) {
  std::vector<std::string> servers;
  for (const PlacedPart& part : placed.parts) servers.push_back(part.server);
  return servers;
}

// "GPU-1, GPU-2 of gpu7"
std::string WhereOf(const PlacedGrant& placed) {
  std::string text;
  for (const PlacedPart& part : placed.parts) {
    text += text.empty() ? "" : "; ";
    for (const PlacedGpu& gpu : part.gpus) text += gpu.uuid + (&gpu == &part.gpus.back() ? "" : ", ");
    text += " of " + part.server;
  }
  return text;
}

}  // namespace

GrantId GrantOf(std::string_view cluster, std::string_view holder, std::string_view request_id) {
  std::string text;
  for (const std::string_view part : {cluster, holder, request_id}) text += fmt::format("{}:{}", part.size(), part);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  GrantId id{};
  std::transform(digest.begin(), digest.begin() + id.size(), id.begin(), [](unsigned char each) { return std::byte{each}; });
  return id;
}

Status PlacerCore::Load(const std::vector<StoreEntry>& entries, int64_t now_ms) {
  const auto damaged = [](const StoreEntry& entry) {
    return Wrong(fmt::format("what the store has as '{}' is damaged: restore the store from a copy, or remove it", entry.key));
  };
  for (const StoreEntry& entry : entries) {
    if (!entry.key.starts_with(kServerKeys)) continue;
    Result<KeptServer> server = ReadServer(entry.value);
    if (!server.ok()) return damaged(entry);
    const std::string id = server->is.id;
    hosts_[id] = server->host;  // a job may receive its grant before the server is back
    const Status joined = pool_.Join(std::move(server->is), now_ms * kNsOfMs);
    if (!joined.ok()) LogWarning("a server of before is forgotten: {}", joined.message());
    pool_.Leave(id);
    if (joined.ok() && server->cordon) TakeCordon(id, std::move(*server->cordon));
  }
  drains_from_ms_ = now_ms + kReturnMs;
  for (const StoreEntry& entry : entries) {
    if (!entry.key.starts_with(kPlacedKeys)) continue;
    Result<PlacedGrant> placed = ReadPlaced(entry.value);
    if (!placed.ok()) return damaged(entry);
    placed->ask.wish.host = HostFor(placed->ask.holder);
    rows_[placed->ask.id] = {.holder = placed->ask.holder, .is_there = true};
    Grant grant{.ask = placed->ask};
    for (const PlacedPart& part : placed->parts) {
      ChosenPart& chosen = grant.parts.emplace_back();
      chosen.server = part.server;
      for (const PlacedGpu& gpu : part.gpus) chosen.gpus.push_back({gpu.number, gpu.memory_bytes});
    }
    const GrantId id = placed->ask.id;
    if (const Status restored = book_.Restore(grant, now_ms); !restored.ok()) {
      LogWarning("grant {} ends: {}", GrantText(id), restored.message());
      Note({.actor = std::string(AuditRecord::kPlacer),
            .action = "revoke",
            .object = GrantText(id),
            .holder = placed->ask.holder,
            .servers = ServersOf(*placed),
            .text = restored.message()},
           now_ms);
      Keep({KeyOfPlaced(id), std::nullopt}, std::nullopt);
      continue;
    }
    Sign(*placed, now_ms);
    placed_[id] = std::move(*placed);
  }
  return Status::Ok();
}

std::string PlacerCore::HostFor(std::string_view holder) const { return UserOf(holder) ? options_.host : ""; }

Result<GrantId> PlacerCore::Place(const Ask& ask, int64_t now_ms) {
  const bool is_new = !placed_.contains(GrantOf(options_.cluster, ask.holder, ask.request_id));
  Result<GrantId> grant = PlaceNow(ask, now_ms);
  AuditRecord record{.actor = ask.holder, .action = "ask", .holder = ask.holder, .text = TextOf(ask.wish)};
  if (!grant.ok()) {
    record.outcome = AuditRecord::kRefused;
    record.text += ": " + grant.status().message();
    Note(std::move(record), now_ms);
  } else if (is_new) {
    record.object = GrantText(*grant);
    record.time_ms = now_ms;
    asked_.push_back(std::move(record));
  }
  return grant;
}

Result<GrantId> PlacerCore::PlaceNow(const Ask& ask, int64_t now_ms) {
  if (ask.request_id.empty() || ask.request_id.size() > kRequestIdBytesMax)
    return Wrong(fmt::format("request_id has 1 to {} bytes, and not {}", kRequestIdBytesMax, ask.request_id.size()));
  if (ask.wish.share == 0) return Wrong("share is above 0");
  GrantAsk grant{.id = GrantOf(options_.cluster, ask.holder, ask.request_id),
                 .holder = ask.holder,
                 .wish = ask.wish,
                 .limit = ask.limit,
                 .wait_ms = ask.wait_ms};
  grant.wish.host = HostFor(ask.holder);
  // The book has an ended grant until the next turn, and does not report its end again.
  if (const Grant* const before = book_.Find(grant.id); before != nullptr && before->state > Grant::State::kGranted)
    return Status(StatusCode::kUnavailable, "the grant of this request has just ended: ask again");
  if (Status status = book_.Ask(grant, now_ms); !status.ok()) return status;
  PlacedGrant& placed = placed_[grant.id];
  if (placed.request_id.empty()) {
    placed.ask = grant;
    placed.request_id = ask.request_id;
  }
  return grant.id;
}

void PlacerCore::Withdraw(const GrantId& grant) {
  const Grant* const found = book_.Find(grant);
  if (found != nullptr && found->state < Grant::State::kGranted) (void)Release(grant);
}

Status PlacerCore::Renew(const GrantId& grant, int64_t now_ms) {
  const Grant* const found = book_.Find(grant);
  if (found == nullptr || found->state > Grant::State::kGranted) return NoGrant(grant);
  book_.Beat(grant, now_ms);
  PlacedGrant& placed = placed_.at(grant);
  if (found->state == Grant::State::kGranted && now_ms - placed.issued_ms >= options_.ticket_ms / 3) {
    ++placed.renewal;
    Sign(placed, now_ms);
  }
  return Status::Ok();
}

Status PlacerCore::Release(const GrantId& grant, std::string by) {
  RETURN_IF_ERROR(book_.Release(grant));
  const auto placed = placed_.find(grant);
  ended_by_[grant] = by.empty() && placed != placed_.end() ? placed->second.ask.holder : std::move(by);
  return Status::Ok();
}

Status PlacerCore::Revoke(const GrantId& grant, std::string reason, std::string by) {
  RETURN_IF_ERROR(book_.Revoke(grant, std::move(reason)));
  ended_by_[grant] = std::move(by);
  return Status::Ok();
}

void PlacerCore::Stored(const GrantId& grant, bool done, int64_t now_ms) {
  if (done) return book_.Stored(grant, now_ms);
  // A store that has failed gets no new attempt at once: its disk is full, as a rule.
  book_.NotStored(grant, now_ms + kStoreAgainMs);
}

void PlacerCore::Turn(int64_t now_ms) {
  EndDrained(now_ms);
  ActAll(now_ms);
  ended_by_.clear();
  ends_noted_.clear();
}

int64_t PlacerCore::NextMs() const { return std::min(book_.NextMs(), NextDrainMs()); }

void PlacerCore::ActAll(int64_t now_ms) {
  const std::vector<GrantAction> actions = book_.Turn(now_ms);
  NoteAsked();
  for (const GrantAction& action : actions) Act(action, now_ms);
}

void PlacerCore::Act(const GrantAction& action, int64_t now_ms) {
  const auto there = placed_.find(action.grant);
  const Grant* const grant = book_.Find(action.grant);
  switch (action.kind) {
    case GrantAction::Kind::kHold: {
      if (there == placed_.end() || grant == nullptr) return;
      PlacedGrant& placed = there->second;
      TakeParts(placed, *grant);
      if (placed.parts.front().ticket.empty()) Sign(placed, now_ms);
      for (const PlacedPart& part : placed.parts) {
        if (part.server == action.server) Order(part.server, Kind::kHold, action.grant, now_ms + kHoldMs, part.ticket);
      }
      return;
    }
    case GrantAction::Kind::kCancel: return Order(action.server, Kind::kCancel, action.grant, 0);
    case GrantAction::Kind::kConfirm: return Order(action.server, Kind::kConfirm, action.grant, 0);
    case GrantAction::Kind::kFree:
      // No ticket that is signed already lives longer.
      return Order(action.server, Kind::kRelease, action.grant, now_ms + options_.ticket_ms);
    case GrantAction::Kind::kStore:
      if (there == placed_.end()) return;
      Note({.actor = std::string(AuditRecord::kPlacer),
            .action = "grant",
            .object = GrantText(action.grant),
            .holder = there->second.ask.holder,
            .servers = ServersOf(there->second),
            .text = WhereOf(there->second)},
           now_ms);
      rows_[action.grant].holder = there->second.ask.holder;
      ++rows_[action.grant].puts;
      return Keep({KeyOfPlaced(action.grant), StoredPlaced(there->second)}, action.grant);
    case GrantAction::Kind::kForget:
      // A grant that was not stored may be placed again.
      if (there != placed_.end() && grant != nullptr && grant->state > Grant::State::kGranted)
        NoteEnd(there->second, *grant, now_ms);
      return Keep({KeyOfPlaced(action.grant), std::nullopt}, std::nullopt);
    case GrantAction::Kind::kTell:
      if (there == placed_.end() || grant == nullptr) return;
      if (grant->state > Grant::State::kGranted) NoteEnd(there->second, *grant, now_ms);
      if (grant->parts.empty()) there->second.parts.clear();
      outside_.Tell(ViewOf(there->second, *grant));
      if (grant->state > Grant::State::kGranted) placed_.erase(there);
      return;
  }
}

void PlacerCore::TakeParts(PlacedGrant& placed, const Grant& grant) const {
  std::vector<PlacedPart> parts;
  for (const ChosenPart& chosen : grant.parts) {
    PlacedPart& part = parts.emplace_back();
    part.server = chosen.server;
    const auto server = pool_.servers().find(chosen.server);
    if (server == pool_.servers().end()) continue;
    for (const ChosenGpu& gpu : chosen.gpus) {
      const PoolGpu& is = server->second.gpus.at(gpu.gpu).is;
      part.gpus.push_back({is.uuid, is.model, gpu.gpu, gpu.memory_bytes});
    }
  }
  // Each part of a placement has a kHold of its own: the tickets signed for the first one stay for the others.
  std::vector<PlacedPart> before = placed.parts;
  for (PlacedPart& part : before) part.ticket.clear();
  if (before != parts) placed.parts = std::move(parts);
}

void PlacerCore::Sign(PlacedGrant& placed, int64_t now_ms) const {
  placed.issued_ms = now_ms;
  for (size_t i = 0; i < placed.parts.size(); ++i) {
    PlacedPart& part = placed.parts[i];
    Ticket ticket{.cluster = options_.cluster,
                  .grant = placed.ask.id,
                  .part = static_cast<uint32_t>(i),
                  .server = part.server,
                  .holder = placed.ask.holder,
                  .epoch = epoch_,
                  .renewal = placed.renewal,
                  .issued_ms = now_ms,
                  .expires_ms = now_ms + options_.ticket_ms,
                  .processes = placed.ask.wish.processes};
    for (const PlacedGpu& gpu : part.gpus) {
      TicketVgpu& vgpu = ticket.vgpus.emplace_back();
      if (const auto uuid = ParseGpuUuid(gpu.uuid)) vgpu.gpu = *uuid;
      vgpu.request = placed.ask.wish.share;
      vgpu.limit = placed.ask.limit;
      vgpu.memory_bytes = gpu.memory_bytes;
      vgpu.isolation = IsolationOf(placed.ask.wish.isolation);
      vgpu.priority = PriorityOf(placed.ask.wish.priority);
    }
    part.ticket = signer_.Sign(ticket);
  }
}

GrantView PlacerCore::ViewOf(const PlacedGrant& placed, const Grant& grant) const {
  GrantView view{.grant = placed, .state = grant.state, .reason = grant.reason};
  if (grant.state != Grant::State::kGranted) view.grant.parts.clear();
  return view;
}

std::optional<GrantView> PlacerCore::View(const GrantId& grant) const {
  const auto there = placed_.find(grant);
  const Grant* const found = book_.Find(grant);
  if (there == placed_.end() || found == nullptr) return std::nullopt;
  return ViewOf(there->second, *found);
}

std::vector<GrantView> PlacerCore::ViewAll() const {
  std::vector<GrantView> views;
  for (const auto& [id, placed] : placed_) {
    if (const Grant* const grant = book_.Find(id)) views.push_back(ViewOf(placed, *grant));
  }
  return views;
}

std::string PlacerCore::ReleaseOf(const std::string& server) const {
  const auto there = releases_.find(server);
  return there == releases_.end() ? "" : there->second;
}

std::string PlacerCore::HostOf(const std::string& server) const {
  const auto there = hosts_.find(server);
  return there == hosts_.end() ? "" : there->second;
}

}  // namespace tessera
