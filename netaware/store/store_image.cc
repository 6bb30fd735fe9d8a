#include "netaware/store/store_image.h"

#include <fmt/core.h>

#include <set>
#include <utility>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

using Outcome = StoreResult::Outcome;

// The error of a transaction; empty: none.
std::string WrongOf(const StoreTransaction& transaction) {
  if (transaction.changes.empty() && transaction.records.empty()) return "it changes nothing";
  std::set<std::string_view> keys;
  for (const StoreChange& change : transaction.changes) {
    if (change.key.empty() || change.key.size() > Store::kKeyBytesMax) {
      return fmt::format("a key has {} bytes: 1 to {} can be", change.key.size(), Store::kKeyBytesMax);
    }
    if (change.value && change.value->size() > Store::kValueBytesMax) {
      return fmt::format("the value of '{}' has {} bytes: {} can be", Printable(change.key), change.value->size(),
                         Store::kValueBytesMax);
    }
    if (!keys.insert(change.key).second) return fmt::format("'{}' is changed twice", Printable(change.key));
  }
  for (const StoreRecord& record : transaction.records) {
    if (record.value.size() > Store::kRecordBytesMax)
      return fmt::format("a record has {} bytes: {} can be", record.value.size(), Store::kRecordBytesMax);
    if (record.owner.size() > Store::kOwnerBytesMax)
      return fmt::format("a record's owner has {} bytes: {} can be", record.owner.size(), Store::kOwnerBytesMax);
  }
  return "";
}

}  // namespace

void StoreImage::Load(std::vector<StoreEntry> entries, uint64_t revision, uint64_t last_record) {
  for (StoreEntry& entry : entries) entries_[std::move(entry.key)] = {std::move(entry.value), entry.revision};
  revision_ = events_after_ = revision;
  last_record_ = last_record;
}

StoreImage::Plan StoreImage::PlanOf(std::span<const StoreTransaction> transactions) const {
  Plan plan;
  std::map<std::string_view, uint64_t> revisions;  // of keys that the plan has changed; 0: removed
  uint64_t last = revision_, last_record = last_record_;
  const auto revision_of = [&](const std::string& key) {
    if (const auto planned = revisions.find(key); planned != revisions.end()) return planned->second;
    const auto there = entries_.find(key);
    return there == entries_.end() ? 0 : there->second.revision;
  };
  const auto stale = [&](const StoreTransaction& transaction) -> std::string {
    for (const StoreCompare& compare : transaction.compares) {
      const uint64_t now = revision_of(compare.key);
      if (now != compare.revision) {
        return fmt::format("'{}' has the revision {}, and not {}", Printable(compare.key), now, compare.revision);
      }
    }
    return "";
  };
  for (const StoreTransaction& transaction : transactions) {
    if (std::string wrong = WrongOf(transaction); !wrong.empty()) {
      plan.results.push_back({.outcome = Outcome::kInvalid, .reason = std::move(wrong)});
      continue;
    }
    if (std::string why = stale(transaction); !why.empty()) {
      plan.results.push_back({.outcome = Outcome::kStale, .reason = std::move(why)});
      continue;
    }
    ++last;
    for (const StoreChange& change : transaction.changes) {
      revisions[change.key] = change.value ? last : 0;
      plan.events.push_back({last, change});
    }
    plan.results.push_back(
        {.outcome = Outcome::kDone, .revision = last, .record = transaction.records.empty() ? 0 : last_record + 1});
    for (const StoreRecord& record : transaction.records)
      plan.records.push_back({++last_record, record.time_ms, record.value, record.owner});
  }
  plan.revision = last;
  return plan;
}

void StoreImage::Apply(Plan plan) {
  for (StoreEvent& event : plan.events) {
    if (event.change.value) {
      entries_[event.change.key] = {*event.change.value, event.revision};
    } else {
      entries_.erase(event.change.key);
    }
    events_.push_back(std::move(event));
  }
  revision_ = plan.revision;
  if (!plan.records.empty()) last_record_ = plan.records.back().number;
  while (events_.size() > Store::kEventsKept) {
    events_after_ = events_.front().revision;
    events_.pop_front();
  }
  // Keeps all events of a revision, or none.
  while (!events_.empty() && events_.front().revision == events_after_) events_.pop_front();
}

std::optional<StoreEntry> StoreImage::Get(std::string_view key) const {
  const auto there = entries_.find(key);
  if (there == entries_.end()) return std::nullopt;
  return StoreEntry{there->first, there->second.value, there->second.revision};
}

std::vector<StoreEntry> StoreImage::Range(std::string_view prefix) const {
  std::vector<StoreEntry> found;
  for (auto there = entries_.lower_bound(prefix); there != entries_.end() && there->first.starts_with(prefix); ++there) {
    found.push_back({there->first, there->second.value, there->second.revision});
  }
  return found;
}

Result<std::vector<StoreEvent>> StoreImage::Since(uint64_t revision) const {
  if (revision < events_after_) {
    return Status(StatusCode::kNotFound,
                  fmt::format("changes are known since revision {}, and not since {}: read all anew", events_after_, revision));
  }
  std::vector<StoreEvent> found;
  for (const StoreEvent& event : events_) {
    if (event.revision > revision) found.push_back(event);
  }
  return found;
}

}  // namespace tessera
