// Who is busy at a moment, and how long each vGPU was busy until then and what of that it is billed: time alone in full, time
// beside n - 1 others for 1/n, rounded down to a nanosecond for each piece between two changes. One thread.
#pragma once

#include <cstdint>
#include <vector>

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
  struct Account {
    uint32_t sessions = 0;  // that are busy
    int64_t busy_ns = 0;
    int64_t billed_ns = 0;
  };

  // A vGPU without any time and any busy session.
  void Reset(VgpuId vgpu);
  // Time goes on to `until_ns`; not back. `billed(vgpu, begin_ns, end_ns, part_ns)` hears of each that is billed.
  template <typename Billed>
  void Pass(int64_t until_ns, const Billed& billed) {
    const int64_t length_ns = until_ns - at_ns_;
    if (length_ns <= 0) return;
    if (!busy_.empty()) {
      const int64_t part_ns = busy_.size() == 1 ? length_ns : length_ns / static_cast<int64_t>(busy_.size());
      for (const VgpuId vgpu : busy_) {
        accounts_[vgpu].busy_ns += length_ns;
        accounts_[vgpu].billed_ns += part_ns;
        billed(vgpu, at_ns_, until_ns, part_ns);
      }
      gpu_busy_ns_ += length_ns;
    }
    at_ns_ = until_ns;
  }
  // What changes at this moment. An end has had its beginning.
  void Apply(const BusyEvent& event);

  int64_t at_ns() const { return at_ns_; }
  const Account& account(VgpuId vgpu) const { return accounts_[vgpu]; }
  int64_t gpu_busy_ns() const { return gpu_busy_ns_; }

 private:
  std::vector<Account> accounts_;  // by VgpuId
  std::vector<VgpuId> busy_;
  int64_t at_ns_ = 0;
  int64_t gpu_busy_ns_ = 0;  // at least one was
};

}  // namespace tessera
