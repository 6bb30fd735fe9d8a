#include "server/holders/fair_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

uint64_t SumUpToMost(uint64_t a, uint64_t b) { return a > kMost - b ? kMost : a + b; }

}  // namespace

uint64_t FairBound::Holder::demand() const { return SumUpToMost(held, wanted); }

bool FairBound::Take(const std::string& holder, uint64_t amount, uint64_t now_ns) {
  ForgetOldAsks(now_ns);
  Holder& own = holders_[holder];
  if (!May(own, amount)) {
    own.wanted = std::max(own.wanted, amount);
    own.asked_ns = now_ns;
    return false;
  }
  own.held += amount;
  own.wanted -= std::min(own.wanted, amount);
  used_ += amount;
  return true;
}

void FairBound::GiveBack(const std::string& holder, uint64_t amount) {
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  amount = std::min(amount, found->second.held);
  found->second.held -= amount;
  used_ -= amount;
  if (found->second.demand() == 0) holders_.erase(found);
}

void FairBound::Want(const std::string& holder, uint64_t amount, uint64_t now_ns) {
  Holder& own = holders_[holder];
  own.wanted = amount;
  own.asked_ns = now_ns;
  if (own.demand() == 0) holders_.erase(holder);
}

uint64_t FairBound::held(const std::string& holder) const {
  const auto found = holders_.find(holder);
  return found == holders_.end() ? 0 : found->second.held;
}

std::vector<std::string> FairBound::holders() const {
  std::vector<std::string> names;
  for (const auto& [name, holder] : holders_) names.push_back(name);
  return names;
}

bool FairBound::May(const Holder& holder, uint64_t amount) const {
  const uint64_t free = limits_.total - std::min(limits_.total, used_);
  if (amount > free) return false;
  const uint64_t left = free - amount;
  const uint64_t has = holder.held + amount;
  const uint64_t share = EqualShare(limits_.total - std::min(limits_.total, limits_.reserve), holder, amount);
  uint64_t kept = limits_.reserve;
  for (const auto& [name, other] : holders_) {
    const uint64_t due = std::min(share, other.demand());
    if (&other != &holder && due > other.held) kept = SumUpToMost(kept, due - other.held);
  }
  return left >= kept || has <= limits_.unit || (has <= left && has <= EqualShare(limits_.total, holder, amount));
}

uint64_t FairBound::EqualShare(uint64_t rest, const Holder& asker, uint64_t amount) const {
  std::vector<uint64_t> demands;
  for (const auto& [name, holder] : holders_) {
    const uint64_t wants = &holder == &asker ? std::max(holder.wanted, amount) : holder.wanted;
    demands.push_back(SumUpToMost(holder.held, wants));
  }
  std::ranges::sort(demands);
  for (size_t i = 0; i < demands.size(); ++i) {
    const uint64_t share = rest / (demands.size() - i);
    if (demands[i] > share) return share;
    rest -= demands[i];
  }
  return kMost;
}

void FairBound::ForgetOldAsks(uint64_t now_ns) {
  for (auto& [name, holder] : holders_) {
    if (now_ns - holder.asked_ns >= kAskedNs) holder.wanted = 0;
  }
  std::erase_if(holders_, [](const auto& each) { return each.second.demand() == 0; });
}

}  // namespace tessera
