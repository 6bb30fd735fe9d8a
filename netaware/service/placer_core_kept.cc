// The part of PlacerCore that gives changes to the store, and repeats those that failed.
#include <algorithm>
#include <utility>

#include "netaware/service/placer_core.h"

namespace tessera {
namespace {

// nullopt: the key is of no grant.
std::optional<GrantId> GrantOfKey(std::string_view key) {
  return key.starts_with(kPlacedKeys) ? ParseGrant(key.substr(kPlacedKeys.size())) : std::nullopt;
}

}  // namespace

void PlacerCore::Keep(StoreChange change, std::optional<GrantId> grant) {
  KeepAll({.changes = {std::move(change)}, .records = notes_.Take(kNotesOfWrite)}, grant);
}

void PlacerCore::KeepAll(StoreTransaction transaction, std::optional<GrantId> grant) {
  // Repeats failed changes with the next transaction and not later: otherwise the GPUs of an ended grant could be stored for
  // another grant, too.
  for (const std::string& key : std::exchange(not_kept_, {})) {
    if (std::ranges::any_of(transaction.changes, [&](const StoreChange& change) { return change.key == key; })) continue;
    if (const std::optional<GrantId> ended = GrantOfKey(key)) {
      if (HasEnded(*ended)) transaction.changes.push_back({key, std::nullopt});
      continue;
    }
    const std::string server = key.substr(kServerKeys.size());
    transaction.changes.push_back(pool_.servers().contains(server) ? RecordOf(server) : StoreChange{key, std::nullopt});
  }
  if (!transaction.empty()) outside_.Keep(std::move(transaction), grant);
}

bool PlacerCore::HasEnded(const GrantId& grant) const {
  const Grant* const found = book_.Find(grant);
  return found == nullptr || (found->state != Grant::State::kHeld && found->state != Grant::State::kGranted);
}

void PlacerCore::Kept(const std::vector<StoreChange>& changes, bool done) {
  for (const StoreChange& change : changes) {
    const std::optional<GrantId> grant = GrantOfKey(change.key);
    if (!grant) {
      if (!done) not_kept_.insert(change.key);
      continue;
    }
    const auto row = rows_.find(*grant);
    if (row == rows_.end()) continue;
    if (change.value) {
      row->second.puts -= row->second.puts == 0 ? 0 : 1;
      row->second.is_there = row->second.is_there || done;
    } else if (done) {
      row->second.is_there = false;
    } else if (row->second.is_there) {
      not_kept_.insert(change.key);
    }
    if (row->second.puts == 0 && !row->second.is_there) rows_.erase(row);
  }
}

std::optional<std::string> PlacerCore::EndNotStored(const GrantId& grant) const {
  const auto row = rows_.find(grant);
  return row == rows_.end() || !HasEnded(grant) ? std::nullopt : std::optional(row->second.holder);
}

}  // namespace tessera
