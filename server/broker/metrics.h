// What a broker counts, at one moment, and how its thread gives it to those who tell of it.
//
//   broker:  board.Publish(MetricsOf(broker, now_ns));        // once a second
//   front:   const std::shared_ptr<const Metrics> metrics = board.last();
//
// Counters begin with the broker, and those of a vGPU with that: they outlive sessions. What sessions have done is what their
// workers say. Seconds of busy and wait are counted while the GPU is metered, as there are no reports otherwise; `active_s` is
// counted always.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/memory_kind.h"
#include "scheduler/hand_over_times.h"
#include "server/broker/work_watch.h"

namespace tessera {

class Broker;

struct GpuMetrics {
  uint32_t row = 0;
  std::string gpu;  // GpuName()
  std::string policy;
  std::array<double, 3> in_mode_s{};  // by GpuMode
  double busy_s = 0;                  // of any vGPU's work, while it was metered
  HandOverTimes hand_overs;
};

struct VgpuMetrics {
  std::string name;
  uint32_t row = 0;
  std::string gpu;     // GpuName()
  std::string owners;  // who sees it: holders with commas between, "*": all; empty: administrators alone
  double request = 0, limit = 0;
  double used_10s = 0;  // share of the GPU's time, within the last 10 s; 0 unless it is metered
  double busy_s = 0;    // billed
  double waited_s = 0;
  double active_s = 0;  // with a session that made calls, looked at every Broker::kTickNs
  uint64_t grants = 0;
  uint32_t sessions = 0;
  uint64_t memory_held_bytes = 0;
  MemoryByKind memory_held_by_kind{};
  uint64_t memory_limit_bytes = 0;  // 0: none
  WorkCounts work;
  uint64_t audit_findings = 0;         // of time
  uint64_t audit_memory_findings = 0;  // of memory
};

struct Metrics {
  int64_t at_ns = 0;
  std::vector<GpuMetrics> gpus;
  std::vector<VgpuMetrics> vgpus;
};

// Looks at all workers' pages. The broker's thread.
Metrics MetricsOf(Broker& broker, int64_t now_ns);

// Any thread.
class MetricsBoard {
 public:
  static constexpr int64_t kGapNs = 1'000'000'000;

  void Publish(Metrics metrics) {
    auto next = std::make_shared<const Metrics>(std::move(metrics));
    MutexLock lock(mutex_);
    last_.swap(next);
  }
  // Null: there was none yet.
  std::shared_ptr<const Metrics> last() {
    MutexLock lock(mutex_);
    return last_;
  }

 private:
  Mutex mutex_;
  std::shared_ptr<const Metrics> last_ GUARDED_BY(mutex_);
};

}  // namespace tessera
