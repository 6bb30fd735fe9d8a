#include "netaware/service/waiting_notes.h"

#include <algorithm>
#include <utility>

namespace tessera {

bool WaitingNotes::Add(StoreRecord record) {
  if (notes_.size() >= kMost) {
    const auto has_fewer = [](const auto& one, const auto& other) { return one.second < other.second; };
    const auto most = std::max_element(of_.begin(), of_.end(), has_fewer);
    const auto own = of_.find(record.owner);
    if (own != of_.end() && own->second >= most->second) return false;
    notes_.erase(
        std::find_if(notes_.rbegin(), notes_.rend(), [&](const auto& each) { return each.owner == most->first; }).base() - 1);
    if (--most->second == 0) of_.erase(most);
  }
  ++of_[record.owner];
  notes_.push_back(std::move(record));
  return true;
}

std::vector<StoreRecord> WaitingNotes::Take(size_t of_owner) {
  const bool is_all = std::ranges::all_of(of_, [&](const auto& each) { return each.second <= of_owner; });
  std::vector<StoreRecord> all = std::exchange(notes_, {});
  of_.clear();
  if (is_all) return all;
  std::map<std::string, size_t> taken;
  std::vector<StoreRecord> some;
  for (StoreRecord& note : all) {
    if (++taken[note.owner] <= of_owner) {
      some.push_back(std::move(note));
    } else {
      ++of_[note.owner];
      notes_.push_back(std::move(note));
    }
  }
  return some;
}

}  // namespace tessera
