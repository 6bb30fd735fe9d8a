#include "scheduler/token_ledger.h"

#include <algorithm>

namespace tessera {

void TokenLedger::Open(VgpuId vgpu) {
  if (vgpu >= accounts_.size()) accounts_.resize(vgpu + 1);
  accounts_[vgpu] = Account();
  settled_.Reset(vgpu);
  latest_.Reset(vgpu);
}

void TokenLedger::Close(VgpuId vgpu) {
  // Others' parts of what was not settled yet are settled with it.
  Settle(now_ns_);
  std::erase_if(events_, [&](const BusyEvent& event) { return event.vgpu == vgpu; });
  accounts_[vgpu] = Account();
  settled_.Reset(vgpu);
  follows_ = false;
  FollowUp();
}

void TokenLedger::BusyBegan(VgpuId vgpu, int64_t at_ns) { Add({at_ns, vgpu, true}); }
void TokenLedger::BusyEnded(VgpuId vgpu, int64_t at_ns) { Add({at_ns, vgpu, false}); }

void TokenLedger::Add(const BusyEvent& event) {
  const BusyEvent settled = {std::max(event.at_ns, settled_.at_ns()), event.vgpu, event.begins};
  const auto later = [](int64_t at_ns, const BusyEvent& other) { return at_ns < other.at_ns; };
  events_.insert(std::upper_bound(events_.begin(), events_.end(), settled.at_ns, later), settled);
  if (settled.at_ns < latest_.at_ns()) follows_ = false;
}

void TokenLedger::Advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  Settle(now_ns_ - kSettleNs);
  for (Account& account : accounts_) account.history.Advance(now_ns_);
  FollowUp();
}

void TokenLedger::Settle(int64_t until_ns) {
  const auto bill = [&](VgpuId vgpu, int64_t begin_ns, int64_t end_ns, int64_t part_ns) {
    accounts_[vgpu].history.Add(begin_ns, end_ns, part_ns);
  };
  while (!events_.empty() && events_.front().at_ns <= until_ns) {
    settled_.Pass(events_.front().at_ns, bill);
    settled_.Apply(events_.front());
    events_.pop_front();
    if (followed_ > 0) --followed_;
  }
  settled_.Pass(until_ns, bill);
}

// Brings latest_ to now: by what is new; or all of what is not settled again, when something came late, and once in a while,
// since pieces of other lengths are rounded otherwise.
void TokenLedger::FollowUp() {
  if (!follows_ || now_ns_ - followed_since_ns_ >= kSettleNs) {
    latest_ = settled_;
    followed_ = 0;
    follows_ = true;
    followed_since_ns_ = now_ns_;
  }
  const auto nobody = [](VgpuId, int64_t, int64_t, int64_t) {};
  for (; followed_ < events_.size() && events_[followed_].at_ns <= now_ns_; ++followed_) {
    latest_.Pass(events_[followed_].at_ns, nobody);
    latest_.Apply(events_[followed_]);
  }
  latest_.Pass(now_ns_, nobody);
}

int64_t TokenLedger::UsedNs(VgpuId vgpu, Window window) const {
  const int64_t unsettled_ns = latest_.account(vgpu).billed_ns - settled_.account(vgpu).billed_ns;
  return accounts_[vgpu].history.UsedNs(window) + std::max<int64_t>(0, unsettled_ns);
}

int64_t TokenLedger::UnusedNs(VgpuId vgpu) const { return std::max<int64_t>(0, accounts_[vgpu].token_until_ns - now_ns_); }

}  // namespace tessera
