#include "netaware/grants/grant_book.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tessera {
namespace {

using Kind = GrantAction::Kind;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kNsOfMs = 1'000'000;

bool HasEnded(Grant::State state) { return state >= Grant::State::kReleased; }

Status CheckAsk(const GrantAsk& ask) {
  const auto wrong = [](std::string why) { return Status(StatusCode::kInvalidArgument, std::move(why)); };
  if (ask.wish.gpus == 0) return wrong("a job asks for 1 GPU at least");
  if (ask.wish.share > kWholeShare)
    return wrong(fmt::format("a share is {} ppm at most, and not {}", kWholeShare, ask.wish.share));
  if (ask.limit == 0 || ask.limit > kWholeShare || ask.limit < ask.wish.share) {
    return wrong(fmt::format("a limit is above 0, the share ({} ppm) at least, and {} ppm at most, and not {}", ask.wish.share,
                             kWholeShare, ask.limit));
  }
  return Status::Ok();
}

bool HasPartOf(const Grant& grant, std::string_view server) {
  return std::any_of(grant.parts.begin(), grant.parts.end(), [&](const ChosenPart& part) { return part.server == server; });
}

}  // namespace

Status GrantBook::Ask(const GrantAsk& ask, int64_t now_ms) {
  if (const auto there = entries_.find(ask.id); there != entries_.end()) {
    if (there->second.grant.ask == ask) return Status::Ok();
    return Status(StatusCode::kInvalidArgument, fmt::format("another request had the number {}", GrantText(ask.id)));
  }
  if (Status status = CheckAsk(ask); !status.ok()) return status;
  Entry& entry = entries_[ask.id];
  entry.grant.ask = ask;
  entry.number = ++last_number_;
  entry.heard_ms = now_ms;
  entry.wait_until_ms = ask.wait_ms < 0 || ask.wait_ms >= kNever - now_ms ? kNever : now_ms + ask.wait_ms;
  waiting_.emplace(entry.number, ask.id);
  look_again_ms_ = now_ms;
  return Status::Ok();
}

Status GrantBook::HoldInPool(const Grant& grant) {
  const std::string text = GrantText(grant.ask.id);
  for (const ChosenPart& part : grant.parts) {
    std::vector<Inventory::HeldGpu> held;
    const auto server = pool_.servers().find(part.server);
    for (const ChosenGpu& gpu : part.gpus) {
      const bool is_there = server != pool_.servers().end() && gpu.gpu < server->second.gpus.size();
      const uint64_t contexts = is_there ? ContextsOf(server->second.gpus[gpu.gpu].is, grant.ask.wish.processes) : 0;
      held.push_back({gpu.gpu, {grant.ask.wish.share, gpu.memory_bytes + contexts}});
    }
    if (Status status = pool_.Hold(text, part.server, std::move(held)); !status.ok()) {
      pool_.Free(text);
      return status;
    }
  }
  return Status::Ok();
}

Status GrantBook::Restore(const Grant& grant, int64_t now_ms) {
  if (entries_.contains(grant.ask.id)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("another request had the number {}", GrantText(grant.ask.id)));
  }
  if (Status status = HoldInPool(grant); !status.ok()) return status;
  Entry& entry = entries_[grant.ask.id];
  entry.grant = grant;
  entry.grant.state = State::kGranted;
  entry.number = ++last_number_;
  entry.heard_ms = now_ms;
  return Status::Ok();
}

GrantBook::Entry* GrantBook::FindIn(const GrantId& grant, State state) {
  const auto there = entries_.find(grant);
  return there == entries_.end() || there->second.grant.state != state ? nullptr : &there->second;
}

void GrantBook::Act(Kind kind, const Entry& entry, std::string server) {
  actions_.push_back({kind, entry.grant.ask.id, std::move(server)});
}

void GrantBook::GiveBack(Entry& entry) {
  pool_.Free(GrantText(entry.grant.ask.id));
  entry.grant.parts.clear();
  entry.held.clear();
}

void GrantBook::Become(Entry& entry, State state, std::string reason) {
  const State before = entry.grant.state;
  entry.grant.state = state;
  entry.grant.reason = std::move(reason);
  if (state == State::kHolding) {
    for (const ChosenPart& part : entry.grant.parts) Act(Kind::kHold, entry, part.server);
  } else if (state == State::kHeld) {
    Act(Kind::kStore, entry);
  } else if (state == State::kGranted) {
    for (const ChosenPart& part : entry.grant.parts) Act(Kind::kConfirm, entry, part.server);
    Act(Kind::kTell, entry);
  } else {
    // It has no parts any more: it waits, or has ended.
    const Kind end = before == State::kGranted ? Kind::kFree : Kind::kCancel;
    for (const ChosenPart& part : entry.grant.parts) Act(end, entry, part.server);
    if (before == State::kHeld || before == State::kGranted) Act(Kind::kForget, entry);
    GiveBack(entry);
    Act(Kind::kTell, entry);
    if (HasEnded(state)) {
      waiting_.erase(entry.number);
      ended_.push_back(entry.grant.ask.id);
    } else {
      waiting_.emplace(entry.number, entry.grant.ask.id);
    }
  }
}

void GrantBook::Held(const GrantId& grant, std::string_view server) {
  const auto there = entries_.find(grant);
  if (there == entries_.end() || !HasPartOf(there->second.grant, server)) {
    // It came too late: the part is not wanted any more.
    actions_.push_back({Kind::kCancel, grant, std::string(server)});
    return;
  }
  Entry& entry = there->second;
  if (entry.grant.state != State::kHolding) return;
  entry.held.emplace(server);
  if (entry.held.size() == entry.grant.parts.size()) Become(entry, State::kHeld);
}

void GrantBook::Refused(const GrantId& grant, std::string_view server, int64_t now_ms) {
  Entry* entry = FindIn(grant, State::kHolding);
  if (entry != nullptr && HasPartOf(entry->grant, server)) PlaceAgain(*entry, {std::string(server)}, now_ms);
}

void GrantBook::PlaceAgain(Entry& entry, const ServerNames& without, int64_t now_ms) {
  for (const std::string& server : without) entry.avoided[server] = now_ms + kAvoidedMs;
  Become(entry, State::kWaiting, "a server did not hold its part: another place is looked for");
  look_again_ms_ = now_ms;
}

void GrantBook::Stored(const GrantId& grant, int64_t now_ms) {
  Entry* entry = FindIn(grant, State::kHeld);
  if (entry == nullptr) return;
  entry->heard_ms = now_ms;
  Become(*entry, State::kGranted);
}

void GrantBook::NotStored(const GrantId& grant, int64_t again_ms) {
  Entry* entry = FindIn(grant, State::kHeld);
  if (entry == nullptr) return;
  entry->not_before_ms = again_ms;
  Become(*entry, State::kWaiting, "the placer could not store the grant: it tries again");
}

int64_t GrantBook::StoreUntilMs(const Entry& entry) {
  return entry.wait_until_ms == kNever ? kNever : std::max(entry.wait_until_ms, entry.answer_until_ms + kStoreMs);
}

void GrantBook::Beat(const GrantId& grant, int64_t now_ms) {
  if (const auto there = entries_.find(grant); there != entries_.end()) there->second.heard_ms = now_ms;
}

Status GrantBook::Release(const GrantId& grant) {
  const auto there = entries_.find(grant);
  if (there == entries_.end() || HasEnded(there->second.grant.state)) {
    return Status(StatusCode::kNotFound, fmt::format("there is no grant {}, or it has ended", GrantText(grant)));
  }
  Become(there->second, State::kReleased);
  return Status::Ok();
}

Status GrantBook::Revoke(const GrantId& grant, std::string reason) {
  const auto there = entries_.find(grant);
  if (there == entries_.end() || HasEnded(there->second.grant.state)) {
    return Status(StatusCode::kNotFound, fmt::format("there is no grant {}, or it has ended", GrantText(grant)));
  }
  Become(there->second, State::kRevoked, std::move(reason));
  return Status::Ok();
}

void GrantBook::Try(Entry& entry, int64_t now_ms) {
  if (now_ms < entry.not_before_ms) {
    if (now_ms >= entry.wait_until_ms) Become(entry, State::kLate, "the placer could not store the grant");
    return;
  }
  entry.not_before_ms = 0;
  if (entry.was_held && now_ms - kLateMs >= entry.wait_until_ms)
    return Become(entry, State::kLate, "a server did not hold its part");
  ServerNames avoided;
  std::erase_if(entry.avoided, [&](const auto& one) { return one.second <= now_ms; });
  for (const auto& [server, until_ms] : entry.avoided) avoided.insert(server);
  Placement found = Place(pool_, entry.grant.ask.wish, now_ms * kNsOfMs, avoided);
  if (found.outcome == Placement::Outcome::kPlaced) {
    entry.grant.parts = std::move(found.parts);
    CHECK(HoldInPool(entry.grant).ok());  // what is placed can be held
    entry.answer_until_ms = now_ms + kAnswerMs;
    entry.was_held = true;
    waiting_.erase(entry.number);
    Become(entry, State::kHolding);
  } else if (found.outcome == Placement::Outcome::kNever) {
    Become(entry, State::kRefused, std::move(found.reason));
  } else if (now_ms >= entry.wait_until_ms) {
    Become(entry, State::kLate, std::move(found.reason));
  } else if (found.reason != entry.grant.reason) {
    entry.grant.reason = std::move(found.reason);
    Act(Kind::kTell, entry);
  }
}

std::vector<GrantAction> GrantBook::Turn(int64_t now_ms) {
  for (const GrantId& id : std::exchange(told_, {})) entries_.erase(id);
  for (auto& [id, entry] : entries_) {
    if (HasEnded(entry.grant.state)) continue;
    if (entry.heard_ms + kLeaseMs <= now_ms) {
      Become(entry, State::kReleased, fmt::format("nothing was heard of its job for {} s", kLeaseMs / 1000));
    } else if (entry.grant.state == State::kHolding && entry.answer_until_ms <= now_ms) {
      ServerNames silent;
      for (const ChosenPart& part : entry.grant.parts) {
        if (!entry.held.contains(part.server)) silent.insert(part.server);
      }
      PlaceAgain(entry, silent, now_ms);
    } else if (entry.grant.state == State::kHeld && StoreUntilMs(entry) <= now_ms) {
      Become(entry, State::kLate, "the placer's store did not answer in time");
    } else if (entry.grant.state == State::kWaiting &&
               (entry.wait_until_ms <= now_ms || (entry.not_before_ms != 0 && entry.not_before_ms <= now_ms))) {
      look_again_ms_ = now_ms;
    }
  }
  if (pool_changes_ != pool_.changes() || look_again_ms_ <= now_ms) {
    pool_changes_ = pool_.changes();
    look_again_ms_ = now_ms + kLookMs;
    const std::map<uint64_t, GrantId> waiting = waiting_;
    for (const auto& [number, id] : waiting) Try(entries_.at(id), now_ms);
  }
  told_ = std::exchange(ended_, {});
  return std::exchange(actions_, {});
}

int64_t GrantBook::NextMs() const {
  int64_t next_ms = waiting_.empty() ? kNever : look_again_ms_;
  for (const auto& [id, entry] : entries_) {
    if (entry.grant.state == State::kHolding) next_ms = std::min(next_ms, entry.answer_until_ms);
    if (entry.grant.state == State::kHeld) next_ms = std::min(next_ms, StoreUntilMs(entry));
    if (!HasEnded(entry.grant.state)) next_ms = std::min(next_ms, entry.heard_ms + kLeaseMs);
    if (entry.grant.state != State::kWaiting) continue;
    next_ms = std::min(next_ms, entry.wait_until_ms);
    if (entry.not_before_ms != 0) next_ms = std::min(next_ms, entry.not_before_ms);
  }
  return next_ms;
}

const Grant* GrantBook::Find(const GrantId& grant) const {
  const auto there = entries_.find(grant);
  return there == entries_.end() ? nullptr : &there->second.grant;
}

}  // namespace tessera
