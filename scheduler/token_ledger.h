// Who used how much of one GPU's time: the bill, and the sliding windows over it.
//
// A vGPU is billed for the time in which any of its sessions is busy, and for nothing else. The unused part of a token costs
// nothing; work beyond a token's end is billed. Where n vGPUs are busy at once each is billed 1/n (busy_tally.h). A debt needs no
// account of its own: it lasts until the span that made it leaves the 10 s window.
//
// Events may come late and in any order. They are sorted, and the last kSettleNs before `now` can still change. An event older
// than that counts as if it had happened just then. The ledger also knows the rest of an open token, so that the next vGPU can be
// chosen as if that were used up.
//
// O(1) amortised for an event in order of time; Advance() is O(vGPUs + events of the last kSettleNs). Memory: usage_history.h,
// and those events. Times are nanoseconds of the caller's one clock. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "scheduler/busy_tally.h"
#include "scheduler/usage_history.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

class TokenLedger {
 public:
  // A worker sees the end of its work some 20 to 100 µs late, and may lose its core between reading the clock and reporting.
  static constexpr int64_t kSettleNs = 2 * kMillisecondNs;

  // Begins an account; `vgpu` has none. A number may be used again once Close() was called.
  void Open(VgpuId vgpu);
  // Ends the account and forgets it. The vGPU is busy no more. The bills of others stay.
  void Close(VgpuId vgpu);

  // One session of the vGPU begins or stops to be busy. Each end follows its beginning. A time in the future counts as now.
  void BusyBegan(VgpuId vgpu, int64_t at_ns);
  void BusyEnded(VgpuId vgpu, int64_t at_ns);

  // The vGPU has a token until `until_ns`; 0: none. What is left of it, as of the last Advance(), is UnusedNs().
  void SetToken(VgpuId vgpu, int64_t until_ns) { accounts_[vgpu].token_until_ns = until_ns; }

  // All figures are as of `now_ns` from here on. Time does not go back.
  void Advance(int64_t now_ns);

  // Billed within the last second, or the last ten.
  int64_t UsedNs(VgpuId vgpu, Window window) const;
  // Billed since Open().
  int64_t BilledNs(VgpuId vgpu) const { return latest_.account(vgpu).billed_ns; }
  // How long it was busy since Open(), whoever else was.
  int64_t BusyNs(VgpuId vgpu) const { return latest_.account(vgpu).busy_ns; }
  // What is left of its token.
  int64_t UnusedNs(VgpuId vgpu) const;
  // How long any vGPU was busy, since the beginning.
  int64_t GpuBusyNs() const { return latest_.gpu_busy_ns(); }
  int64_t now_ns() const { return now_ns_; }

 private:
  struct Account {
    UsageHistory history;  // of what is settled
    int64_t token_until_ns = 0;
  };

  void Add(const BusyEvent& event);
  void Settle(int64_t until_ns);
  void FollowUp();

  std::vector<Account> accounts_;  // by VgpuId
  std::deque<BusyEvent> events_;   // not settled, in order of time
  BusyTally settled_;              // as of now less kSettleNs: nothing changes it any more
  BusyTally latest_;               // as of now, by what is known
  size_t followed_ = 0;            // how many of events_ are in latest_
  bool follows_ = true;            // latest_ has them in order of time
  int64_t followed_since_ns_ = 0;
  int64_t now_ns_ = 0;
};

}  // namespace tessera
