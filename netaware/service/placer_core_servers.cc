// The part of PlacerCore for administrators' changes of servers.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "netaware/service/placer_core.h"
#include "protocol/base/log.h"
#include "protocol/base/nearest_name.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

Status CheckServer(const Inventory& pool, const std::string& server) {
  if (pool.servers().contains(server)) return Status::Ok();
  std::vector<std::string_view> names;
  for (const auto& [id, there] : pool.servers()) names.push_back(id);
  const std::string_view nearest = NearestName(server, names);
  return Status(StatusCode::kNotFound,
                fmt::format("there is no server '{}' in the pool: {}", Printable(server),
                            nearest.empty() ? "it has none" : fmt::format("the nearest name is '{}'", Printable(nearest))));
}

Status CheckReason(const std::string& reason) {
  if (reason.size() <= ServerCordon::kReasonBytesMax && Printable(reason) == reason) return Status::Ok();
  return Status(StatusCode::kInvalidArgument,
                fmt::format("reason has {} bytes that can be printed at most", ServerCordon::kReasonBytesMax));
}

// The reason that the jobs receive.
std::string SentenceOf(const std::string& server, const ServerCordon& cordon) {
  return "by " + cordon.by + ": " + (cordon.reason.empty() ? "server '" + server + "' is drained" : cordon.reason);
}

}  // namespace

StoreChange PlacerCore::RecordOf(const std::string& server) const {
  PoolServer is{.id = server};
  const Inventory::Server& there = pool_.servers().at(server);
  is.addresses = there.addresses;
  is.holder = there.holder;
  for (const Inventory::Gpu& gpu : there.gpus) is.gpus.push_back(gpu.is);
  return {std::string(kServerKeys) + server, StoredServer(is, HostOf(server), CordonOf(server))};
}

StoreTransaction PlacerCore::Noted(const char* action, const std::string& server, const std::string& by, std::string text,
                                   int64_t now_ms, StoreChange change) {
  Note({.actor = by, .action = action, .object = server, .text = std::move(text)}, now_ms);
  return {.changes = {std::move(change)}, .records = notes_.Take(kNotesOfWrite)};
}

void PlacerCore::TakeCordon(const std::string& server, ServerCordon cordon) {
  (void)pool_.Close(server, cordon.reason);
  cordons_[server] = std::move(cordon);
}

void PlacerCore::PlaceElsewhere(const std::string& server, int64_t now_ms) {
  std::vector<GrantId> asked;
  for (const GrantId& id : book_.placed()) {
    if (book_.Find(id)->state == Grant::State::kHolding) asked.push_back(id);
  }
  // Refused() does nothing for a grant without a part there.
  for (const GrantId& id : asked) book_.Refused(id, server, now_ms);
}

Result<StoreTransaction> PlacerCore::Cordon(const std::string& server, const std::string& reason, const std::string& by,
                                            int64_t now_ms) {
  RETURN_IF_ERROR(CheckServer(pool_, server));
  RETURN_IF_ERROR(CheckReason(reason));
  ServerCordon cordon;
  if (const ServerCordon* const before = CordonOf(server)) cordon = *before;
  cordon.reason = reason;
  cordon.by = by;
  LogInfo("server '{}' is cordoned by {}: {}", Printable(server), by, reason);
  TakeCordon(server, std::move(cordon));
  PlaceElsewhere(server, now_ms);
  return Noted("cordon", server, by, reason, now_ms, RecordOf(server));
}

Result<StoreTransaction> PlacerCore::Uncordon(const std::string& server, const std::string& by, int64_t now_ms) {
  RETURN_IF_ERROR(CheckServer(pool_, server));
  if (cordons_.erase(server) != 0) LogInfo("server '{}' is not cordoned any more", Printable(server));
  (void)pool_.Open(server);
  return Noted("uncordon", server, by, "", now_ms, RecordOf(server));
}

Result<StoreTransaction> PlacerCore::Remove(const std::string& server, const std::string& by, int64_t now_ms) {
  RETURN_IF_ERROR(CheckServer(pool_, server));
  RETURN_IF_ERROR(pool_.Remove(server));
  hosts_.erase(server);
  releases_.erase(server);
  cordons_.erase(server);
  LogInfo("server '{}' is removed by {}", Printable(server), by);
  return Noted("remove", server, by, "", now_ms, {std::string(kServerKeys) + server, std::nullopt});
}

Status PlacerCore::CheckDrain(const DrainAsk& ask) const {
  RETURN_IF_ERROR(CheckServer(pool_, ask.server));
  RETURN_IF_ERROR(CheckReason(ask.reason));
  if (!ask.within_ms || (*ask.within_ms >= 0 && *ask.within_ms <= kDrainMsMax)) return Status::Ok();
  return Status(StatusCode::kInvalidArgument,
                fmt::format("deadline_ms is 0 to {} (ten years), and not {}", kDrainMsMax, *ask.within_ms));
}

Result<StoreTransaction> PlacerCore::Drain(const DrainAsk& ask, int64_t now_ms) {
  RETURN_IF_ERROR(CheckDrain(ask));
  ServerCordon cordon{.reason = ask.reason, .by = ask.by, .drains = true};
  if (ask.within_ms) cordon.ends_ms = now_ms + *ask.within_ms;
  LogInfo("server '{}' is drained by {}: {}", Printable(ask.server), ask.by, ask.reason);
  TakeCordon(ask.server, std::move(cordon));
  PlaceElsewhere(ask.server, now_ms);
  std::string text = ask.reason;
  if (ask.within_ms) text += fmt::format("{}what is left ends in {} s", text.empty() ? "" : "; ", *ask.within_ms / 1'000);
  return Noted("drain", ask.server, ask.by, std::move(text), now_ms, RecordOf(ask.server));
}

const ServerCordon* PlacerCore::CordonOf(const std::string& server) const {
  const auto found = cordons_.find(server);
  return found == cordons_.end() ? nullptr : &found->second;
}

bool PlacerCore::IsGrantedAt(const GrantId& grant, const std::string& server) const {
  const Grant* const found = book_.Find(grant);
  return found != nullptr && found->state == Grant::State::kGranted &&
         std::ranges::any_of(found->parts, [&](const ChosenPart& part) { return part.server == server; });
}

std::vector<GrantView> PlacerCore::GrantsOf(const std::string& server) const {
  std::vector<GrantView> views;
  for (const GrantId& id : book_.placed()) {
    if (IsGrantedAt(id, server)) views.push_back(ViewOf(placed_.at(id), *book_.Find(id)));
  }
  return views;
}

Placement PlacerCore::Plan(const Wish& wish, std::string_view holder, int64_t now_ms) const {
  Wish there = wish;
  there.host = HostFor(holder);
  return tessera::Place(pool_, there, now_ms * kNsOfMs);
}

uint32_t PlacerCore::SessionsOf(const std::string& server, const GrantId& grant) const {
  const auto there = sessions_.find(server);
  if (there == sessions_.end()) return 0;
  const auto found = there->second.find(grant);
  return found == there->second.end() ? 0 : found->second;
}

void PlacerCore::EndDrained(int64_t now_ms) {
  for (const auto& [server, cordon] : cordons_) {
    if (!cordon.ends_ms || std::max(*cordon.ends_ms, drains_from_ms_) > now_ms) continue;
    const std::set<GrantId> placed = book_.placed();
    for (const GrantId& id : placed) {
      if (IsGrantedAt(id, server)) (void)Revoke(id, SentenceOf(server, cordon), cordon.by);
    }
  }
}

int64_t PlacerCore::NextDrainMs() const {
  int64_t next_ms = kNever;
  for (const auto& [server, cordon] : cordons_) {
    if (!cordon.ends_ms) continue;
    const bool has_some =
        std::ranges::any_of(book_.placed(), [&, id = server](const GrantId& grant) { return IsGrantedAt(grant, id); });
    if (has_some) next_ms = std::min(next_ms, std::max(*cordon.ends_ms, drains_from_ms_));
  }
  return next_ms;
}

}  // namespace tessera
