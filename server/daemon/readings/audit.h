// Finds workers that use a GPU without reporting it: compares what NVML says of each worker process with the worker's own report.
//
//   audit.Hear(reported);                          // from the broker, once a second while a GPU is not free
//   for (const Audit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// It compares two shares of each second, for each session and GPU. The first is NVML's: how long kernels of the worker ran on the
// GPU's SMs (nvmlDeviceGetProcessUtilization since the last question, so about a second, up to a second late). The second is the
// worker's report page: how long it was busy, as the broker read and billed it. A worker under-reports if the first is more than
// kPointsMax points above the second. After kSecondsInARow such seconds in a row it is found, once.
//
// Nobody must be accused wrongly. NVML's shares are late, so the largest reported share of the last kReportedMax seconds counts.
// The first kSettleNs after the GPU was free are skipped, since nobody has reported work that was queued before. The row ends
// with a second that the broker watched for less than nine tenths, or for which NVML has no figure. A free GPU is not looked at:
// nothing is reported or billed there. A worker that is billed for more than it uses is no under-reporter. memory_audit.h
// compares memory.
//
// It cannot see a worker that reports a part of its work at the right moments: that may use up to kReportedMax times as much as
// it says. Pure: the caller tells the time. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "server/daemon/readings/process_figures.h"
#include "server/gate/broker_line.h"

namespace tessera {

class Audit {
 public:
  static constexpr uint32_t kPointsMax = 20;
  static constexpr uint32_t kSecondsInARow = 5;
  static constexpr size_t kReportedMax = 3;
  static constexpr uint64_t kSettleNs = 10'000'000'000;
  // Of two messages of the broker.
  static constexpr uint64_t kApartMinNs = 500'000'000;
  // The audit is blind after so many answers without figures, or seconds in which workers were busy and NVML knew none of them.
  static constexpr uint32_t kBlindAfter = 10;

  struct Finding {
    uint64_t session;
    uint32_t device;
    uint32_t seen_percent;      // by NVML, in the last second compared
    uint32_t reported_percent;  // the reported share that counts
  };

  void Hear(const ReportedMessage& reported);
  // The findings by these figures, which were asked for after the last Hear().
  std::vector<Finding> Compare(const ProcessFigures& figures);
  // For people: why there is nothing to compare with, since NVML does not tell of this server's processes; nullptr: it does.
  const char* blind() const { return blind_; }

  // How many sessions were found on this GPU, in all.
  uint32_t found(uint32_t device) const { return device < found_.size() ? found_[device] : 0; }

 private:
  using Part = std::pair<uint64_t, uint32_t>;  // session, GPU
  struct Track {
    uint64_t watched_ns = 0;  // as heard last
    uint64_t busy_ns = 0;
    uint64_t settled_ns = 0;         // it was watched without a pause for so long
    std::vector<uint32_t> percents;  // of the last seconds, at most kReportedMax
    uint32_t in_a_row = 0;
    bool heard = false;         // this time
    uint64_t passed_ns = 0;     // between the last two messages
    uint64_t last_busy_ns = 0;  // in that time
  };
  void HearRow(const ReportedMessage::Row& row, uint64_t passed_ns);
  void LookForBlindness(const ProcessFigures& figures);

  uint64_t at_ns_ = 0;
  std::map<Part, Track> tracks_;
  std::set<uint64_t> found_sessions_;
  std::array<uint32_t, kGateRowsMax> found_{};
  bool seen_ = false;  // NVML has told of one of the workers
  uint32_t untold_ = 0;
  uint32_t unseen_ = 0;
  const char* blind_ = nullptr;
};

}  // namespace tessera
