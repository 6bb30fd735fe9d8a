#include "scheduler/token_ledger.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {

void TokenLedger::BusySet::Apply(const Event& event) {
  uint32_t& count = sessions[event.vgpu];
  if (event.begins) {
    if (count++ == 0) busy.push_back(event.vgpu);
    return;
  }
  CHECK(count > 0);
  if (--count == 0) busy.erase(std::find(busy.begin(), busy.end(), event.vgpu));
}

void TokenLedger::Open(VgpuId vgpu) {
  if (vgpu >= accounts_.size()) {
    accounts_.resize(vgpu + 1);
    settled_.sessions.resize(vgpu + 1);
  }
  accounts_[vgpu] = Account();
  accounts_[vgpu].history.Advance(now_ns_);
}

void TokenLedger::Close(VgpuId vgpu) {
  // Others' parts of what was not settled yet are settled with it.
  Settle(now_ns_);
  std::erase_if(events_, [&](const Event& event) { return event.vgpu == vgpu; });
  settled_.sessions[vgpu] = 0;
  std::erase(settled_.busy, vgpu);
  accounts_[vgpu] = Account();
  Estimate();
}

void TokenLedger::BusyBegan(VgpuId vgpu, int64_t at_ns) { Add({at_ns, vgpu, true}); }
void TokenLedger::BusyEnded(VgpuId vgpu, int64_t at_ns) { Add({at_ns, vgpu, false}); }

void TokenLedger::Add(Event event) {
  event.at_ns = std::max(event.at_ns, settled_ns_);
  const auto later = [](int64_t at_ns, const Event& other) { return at_ns < other.at_ns; };
  events_.insert(std::upper_bound(events_.begin(), events_.end(), event.at_ns, later), event);
}

void TokenLedger::Advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  Settle(std::max(settled_ns_, now_ns_ - kSettleNs));
  for (Account& account : accounts_) account.history.Advance(now_ns_);
  Estimate();
}

void TokenLedger::Settle(int64_t until_ns) {
  const auto bill = [&](int64_t end_ns) {
    const int64_t length_ns = end_ns - settled_ns_;
    if (length_ns > 0 && !settled_.busy.empty()) {
      const int64_t part_ns = length_ns / static_cast<int64_t>(settled_.busy.size());
      for (const VgpuId vgpu : settled_.busy) {
        accounts_[vgpu].history.Add(settled_ns_, end_ns, part_ns);
        accounts_[vgpu].billed_ns += part_ns;
        accounts_[vgpu].busy_ns += length_ns;
      }
      gpu_busy_ns_ += length_ns;
    }
    settled_ns_ = std::max(settled_ns_, end_ns);
  };
  size_t done = 0;
  for (; done < events_.size() && events_[done].at_ns <= until_ns; ++done) {
    bill(events_[done].at_ns);
    settled_.Apply(events_[done]);
  }
  events_.erase(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(done));
  bill(until_ns);
}

void TokenLedger::Estimate() {
  for (Account& account : accounts_) account.tail_billed_ns = account.tail_busy_ns = 0;
  tail_gpu_busy_ns_ = 0;
  tail_ = settled_;
  int64_t from_ns = settled_ns_;
  const auto bill = [&](int64_t end_ns) {
    const int64_t length_ns = end_ns - from_ns;
    if (length_ns <= 0) return;
    for (const VgpuId vgpu : tail_.busy) {
      accounts_[vgpu].tail_billed_ns += length_ns / static_cast<int64_t>(tail_.busy.size());
      accounts_[vgpu].tail_busy_ns += length_ns;
    }
    if (!tail_.busy.empty()) tail_gpu_busy_ns_ += length_ns;
    from_ns = end_ns;
  };
  for (const Event& event : events_) {
    if (event.at_ns >= now_ns_) break;
    bill(event.at_ns);
    tail_.Apply(event);
  }
  bill(now_ns_);
}

int64_t TokenLedger::UsedNs(VgpuId vgpu, Window window) const {
  return accounts_[vgpu].history.UsedNs(window) + accounts_[vgpu].tail_billed_ns;
}

int64_t TokenLedger::UnusedNs(VgpuId vgpu) const { return std::max<int64_t>(0, accounts_[vgpu].token_until_ns - now_ns_); }

}  // namespace tessera
