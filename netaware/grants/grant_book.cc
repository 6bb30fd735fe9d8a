#include "netaware/grants/grant_book.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tessera {
namespace {

using Kind = GrantAction::Kind;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

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
  Wait(entry);
  TryNext(entry);
  return Status::Ok();
}

bool GrantBook::TakesAsks(std::string_view holder) const {
  const auto line = lines_.find(holder);
  return line == lines_.end() || line->second.to_try.size() < kUntriedMax;
}

// --- Lines ---

void GrantBook::Wait(Entry& entry) {
  const auto [line, is_new] = lines_.try_emplace(entry.grant.ask.holder);
  if (is_new) {
    line->second.next = kNoPass;
    line->second.changes = pool_.changes();
    line->second.look_ms = kNever;  // until one was tried
  }
  line->second.jobs.emplace(entry.number, entry.grant.ask.id);
  ++waiting_;
  Schedule(entry);
}

void GrantBook::WaitNoMore(Entry& entry) {
  const auto line = lines_.find(entry.grant.ask.holder);
  line->second.jobs.erase(entry.number);
  line->second.to_try.erase(entry.number);
  entry.is_to_try = entry.has_share = false;
  shares_.Leave(entry.number);
  --waiting_;
}

void GrantBook::TryNext(Entry& entry) {
  lines_.find(entry.grant.ask.holder)->second.to_try.insert(entry.number);
  entry.is_to_try = true;
  Schedule(entry);
}

int64_t GrantBook::DueMs(const Entry& entry) {
  const int64_t silent_ms = entry.heard_ms + kLeaseMs;
  switch (entry.grant.state) {
    case State::kWaiting:
      // A job in to_try is tried when its line has a slice.
      if (entry.is_to_try) return silent_ms;
      return std::min({silent_ms, entry.wait_until_ms, entry.not_before_ms == 0 ? kNever : entry.not_before_ms});
    case State::kHolding: return std::min(silent_ms, entry.answer_until_ms);
    case State::kHeld: return std::min(silent_ms, StoreUntilMs(entry));
    case State::kGranted: return silent_ms;
    default: return kNever;
  }
}

void GrantBook::Schedule(Entry& entry) {
  const int64_t due_ms = HasEnded(entry.grant.state) ? 0 : DueMs(entry);
  if (due_ms == entry.due_ms) return;
  if (entry.due_ms != 0) due_.erase({entry.due_ms, entry.grant.ask.id});
  if (due_ms != 0) due_.emplace(due_ms, entry.grant.ask.id);
  entry.due_ms = due_ms;
}

uint64_t GrantBook::NextOf(Line& line, int64_t now_ms) const {
  if (now_ms - line.slice_ms >= kSliceMs) {
    line.slice_ms = now_ms;
    line.looks = 0;
  }
  if (line.looks >= kLooksOfHolder) return kNoPass;
  if (line.next == kNoPass && (line.changes != pool_.changes() || line.look_ms <= now_ms)) {
    line.next = 0;
    line.changes = pool_.changes();
    line.look_ms = now_ms + kLookMs;
    line.known.clear();
  }
  uint64_t next = line.to_try.empty() ? kNoPass : *line.to_try.begin();
  if (line.next != kNoPass) {
    const auto job = line.jobs.lower_bound(line.next);
    line.next = job == line.jobs.end() ? kNoPass : job->first;
    next = std::min(next, line.next);
  }
  return next;
}

void GrantBook::TryAll(int64_t now_ms) {
  // The jobs of all lines together, in order of arrival.
  std::set<std::pair<uint64_t, Line*>> lines;
  const auto enter = [&](Line& line) {
    if (const uint64_t next = NextOf(line, now_ms); next != kNoPass) lines.emplace(next, &line);
  };
  for (auto& [holder, line] : lines_) enter(line);
  while (!lines.empty()) {
    const auto [number, line] = lines.extract(lines.begin()).value();
    // The bounds may have ended it in favour of another job.
    if (const auto job = line->jobs.find(number); job != line->jobs.end()) {
      Entry& entry = entries_.at(job->second);
      line->to_try.erase(number);
      entry.is_to_try = false;
      Try(*line, entry, now_ms);
      Schedule(entry);
    }
    if (line->next == number) line->next = number + 1;
    enter(*line);
  }
  std::erase_if(lines_, [](const auto& each) { return each.second.jobs.empty(); });
}

const Placement& GrantBook::LookAt(Line& line, const Wish& wish, int64_t now_ms) {
  if (std::exchange(line.known_changes, pool_.changes()) != pool_.changes() || line.known.size() >= kKnownMax) line.known.clear();
  const auto [known, is_new] = line.known.try_emplace(wish);
  ++line.looks;
  if (!is_new) return known->second;
  known->second = Place(pool_, wish, now_ms * kNsOfMs);
  line.looks += known->second.looks;
  looks_ += known->second.looks;
  return known->second;
}

// --- Grants ---

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
  placed_.insert(grant.ask.id);
  Schedule(entry);
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
  placed_.erase(entry.grant.ask.id);
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
      if (before == State::kWaiting) WaitNoMore(entry);
      ended_.push_back(entry.grant.ask.id);
    } else {
      Wait(entry);
    }
  }
  Schedule(entry);
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
  TryNext(entry);
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

void GrantBook::Try(Line& line, Entry& entry, int64_t now_ms) {
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
  Placement found;
  if (avoided.empty()) {
    found = LookAt(line, entry.grant.ask.wish, now_ms);
  } else {
    found = Place(pool_, entry.grant.ask.wish, now_ms * kNsOfMs, avoided);
    line.looks += found.looks;
    looks_ += found.looks;
  }
  if (found.outcome == Placement::Outcome::kPlaced) {
    entry.grant.parts = std::move(found.parts);
    CHECK(HoldInPool(entry.grant).ok());  // Place() chooses only free GPUs
    line.known.erase(entry.grant.ask.wish);
    entry.answer_until_ms = now_ms + kAnswerMs;
    entry.was_held = true;
    WaitNoMore(entry);
    placed_.insert(entry.grant.ask.id);
    Become(entry, State::kHolding);
  } else if (found.outcome == Placement::Outcome::kNever) {
    Become(entry, State::kRefused, std::move(found.reason));
  } else if (now_ms >= entry.wait_until_ms) {
    Become(entry, State::kLate, std::move(found.reason));
  } else {
    if (line.look_ms == kNever) line.look_ms = now_ms + kLookMs;
    if (found.reason != entry.grant.reason) {
      if (!entry.grant.reason.empty()) line.looks += kLooksOfTell;
      entry.grant.reason = std::move(found.reason);
      Act(Kind::kTell, entry);
    }
    if (!std::exchange(entry.has_share, true)) Share(entry);
  }
}

void GrantBook::Share(const Entry& entry) {
  const std::optional<HolderShares::Id> goes = shares_.Come(entry.number, entry.grant.ask.holder);
  if (!goes) return;
  for (auto& [holder, line] : lines_) {
    const auto job = line.jobs.find(*goes);
    if (job == line.jobs.end()) continue;
    return Become(entries_.at(job->second), State::kRevoked,
                  fmt::format("too many jobs wait: {} of one holder may, and {} in all, and then his oldest ends",
                              waiting_bounds_.of_holder, waiting_bounds_.in_all));
  }
}

// Handles an entry whose time has come without an event.
void GrantBook::Tend(Entry& entry, int64_t now_ms) {
  if (entry.heard_ms + kLeaseMs <= now_ms)
    return Become(entry, State::kReleased, fmt::format("nothing was heard of its job for {} s", kLeaseMs / 1000));
  if (entry.grant.state == State::kHolding && entry.answer_until_ms <= now_ms) {
    ServerNames silent;
    for (const ChosenPart& part : entry.grant.parts) {
      if (!entry.held.contains(part.server)) silent.insert(part.server);
    }
    PlaceAgain(entry, silent, now_ms);
  } else if (entry.grant.state == State::kHeld && StoreUntilMs(entry) <= now_ms) {
    Become(entry, State::kLate, "the placer's store did not answer in time");
  } else if (entry.grant.state == State::kWaiting &&
             (entry.wait_until_ms <= now_ms || (entry.not_before_ms != 0 && entry.not_before_ms <= now_ms))) {
    TryNext(entry);
  } else {
    Schedule(entry);  // a Beat() came since
  }
}

std::vector<GrantAction> GrantBook::Turn(int64_t now_ms) {
  for (const GrantId& id : std::exchange(told_, {})) entries_.erase(id);
  while (!due_.empty() && due_.begin()->first <= now_ms) Tend(entries_.at(due_.begin()->second), now_ms);
  TryAll(now_ms);
  told_ = std::exchange(ended_, {});
  return std::exchange(actions_, {});
}

int64_t GrantBook::NextMs() const {
  int64_t next_ms = due_.empty() ? kNever : due_.begin()->first;
  for (const auto& [holder, line] : lines_) {
    if (line.jobs.empty()) continue;
    const bool has_more = !line.to_try.empty() || line.next != kNoPass || line.changes != pool_.changes();
    const int64_t line_ms = has_more ? line.slice_ms : line.look_ms;
    next_ms = std::min(next_ms, line.looks < kLooksOfHolder ? line_ms : std::max(line_ms, line.slice_ms + kSliceMs));
  }
  return next_ms;
}

const Grant* GrantBook::Find(const GrantId& grant) const {
  const auto there = entries_.find(grant);
  return there == entries_.end() ? nullptr : &there->second.grant;
}

}  // namespace tessera
