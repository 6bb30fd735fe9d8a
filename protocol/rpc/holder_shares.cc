#include "protocol/rpc/holder_shares.h"

#include <algorithm>

namespace tessera {

std::optional<HolderShares::Id> HolderShares::Come(Id id, const std::string& holder) {
  Ids& own = of_[holder];
  holders_[id] = {holder, own.insert(own.end(), id)};
  const Ids* greedy = nullptr;
  if (own.size() > bounds_.of_holder) {
    greedy = &own;
  } else if (holders_.size() > bounds_.in_all) {
    const auto most =
        std::max_element(of_.begin(), of_.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    greedy = most->second.size() > own.size() ? &most->second : &own;
  }
  if (greedy == nullptr) return std::nullopt;
  const Id goes = greedy->front();
  Leave(goes);
  return goes;
}

void HolderShares::Leave(Id id) {
  const auto found = holders_.find(id);
  if (found == holders_.end()) return;
  const auto of = of_.find(found->second.holder);
  of->second.erase(found->second.at);
  if (of->second.empty()) of_.erase(of);
  holders_.erase(found);
}

size_t HolderShares::OfHolder(std::string_view holder) const {
  const auto found = of_.find(holder);
  return found == of_.end() ? 0 : found->second.size();
}

}  // namespace tessera
