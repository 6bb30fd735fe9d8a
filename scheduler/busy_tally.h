// Which vGPUs are busy, how long each was, and what it is billed for that. A vGPU is billed its time alone in full, and 1/n of
// its time beside n - 1 others. Each piece between two changes is rounded down to a nanosecond.
//
// A vGPU that begins beside a running one gets the GPU when the driver's slice of that one is over. So for kTurnNs it is not
// counted among the n and pays nothing, unless no other vGPU is counted any more. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "scheduler/usage_history.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

// One session of a vGPU begins or stops to be busy.
struct BusyEvent {
  int64_t at_ns = 0;
  VgpuId vgpu = 0;
  bool begins = false;
};

class BusyTally {
 public:
  // Half of a slice: how long it takes on average (slices of 2.1 ms between two processes, driver 580 on an H200).
  static constexpr int64_t kTurnNs = kMillisecondNs;

  struct Account {
    uint32_t sessions = 0;  // busy ones
    int64_t busy_ns = 0;
    int64_t billed_ns = 0;
  };

  // `vgpu` has used no time, and none of its sessions is busy.
  void Reset(VgpuId vgpu);
  // Moves time forward to `until_ns`. Calls `billed(vgpu, begin_ns, end_ns, part_ns)` for each piece of time and each vGPU billed
  // for it.
  template <typename Billed>
  void Pass(int64_t until_ns, const Billed& billed) {
    while (at_ns_ < until_ns) PassPiece(std::min(until_ns, NextTurnNs()), billed);
  }
  // A session begins or ends at at_ns(). An end follows its beginning.
  void Apply(const BusyEvent& event);

  int64_t at_ns() const { return at_ns_; }
  const Account& account(VgpuId vgpu) const { return accounts_[vgpu]; }
  int64_t gpu_busy_ns() const { return gpu_busy_ns_; }

 private:
  struct Busy {
    VgpuId vgpu;
    int64_t turn_ns;  // it takes part from then on
  };

  void Remove(VgpuId vgpu);
  // The next time at which one more takes part.
  int64_t NextTurnNs() const;
  template <typename Billed>
  void PassPiece(int64_t until_ns, const Billed& billed) {
    const int64_t length_ns = until_ns - at_ns_;
    const auto takes_part = [&](const Busy& each) { return each.turn_ns <= at_ns_; };
    const auto count = std::ranges::count_if(busy_, takes_part);
    for (const Busy& each : busy_) {
      accounts_[each.vgpu].busy_ns += length_ns;
      if (!takes_part(each)) continue;
      accounts_[each.vgpu].billed_ns += length_ns / count;
      billed(each.vgpu, at_ns_, until_ns, length_ns / count);
    }
    if (!busy_.empty()) gpu_busy_ns_ += length_ns;
    at_ns_ = until_ns;
  }

  std::vector<Account> accounts_;  // by VgpuId
  std::vector<Busy> busy_;         // in the order in which they began
  int64_t at_ns_ = 0;
  int64_t gpu_busy_ns_ = 0;  // time in which any was busy
};

}  // namespace tessera
