#include "netaware/store/kept_records.h"

#include <algorithm>
#include <iterator>

namespace tessera {

void KeptRecords::Load(const StoreRecord& record) {
  owners_[record.owner].push_back({record.number, record.time_ms});
  ++size_;
}

void KeptRecords::Take(Owners::iterator owner, Change* change) {
  const One& oldest = owner->second.front();
  change->gone.push_back({owner->first, oldest.number, oldest.time_ms});
  owner->second.pop_front();
  --size_;
  if (owner->second.empty()) owners_.erase(owner);
}

KeptRecords::Change KeptRecords::Add(const std::vector<StoreRecord>& records) {
  Change change;
  if (records.empty()) return change;
  change.added = records;
  for (const StoreRecord& record : records) Load(record);
  const size_t most_gone = Store::kRecordsGone + records.size();
  const int64_t oldest_ms = records.back().time_ms - bounds_.age_ms;
  for (auto owner = owners_.begin(); owner != owners_.end();) {
    const auto each = owner++;  // which may go with its last record
    for (size_t left = each->second.size(); left > 0 && change.gone.size() < most_gone; --left) {
      if (each->second.front().time_ms >= oldest_ms) break;
      Take(each, &change);
    }
  }
  while (size_ > bounds_.most && change.gone.size() < most_gone) {
    const auto has_fewer = [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); };
    Take(std::max_element(owners_.begin(), owners_.end(), has_fewer), &change);
  }
  return change;
}

void KeptRecords::Undo(const Change& change) {
  for (auto gone = change.gone.rbegin(); gone != change.gone.rend(); ++gone) {
    owners_[gone->owner].push_front({gone->number, gone->time_ms});
    ++size_;
  }
  for (auto added = change.added.rbegin(); added != change.added.rend(); ++added) {
    const auto owner = owners_.find(added->owner);
    owner->second.pop_back();
    --size_;
    if (owner->second.empty()) owners_.erase(owner);
  }
}

}  // namespace tessera
