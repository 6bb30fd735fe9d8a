// Who uses a GPU without reporting it: what NVML says of each worker process, beside what that worker has said of itself.
//
//   audit.Hear(reported);                          // from the broker, once a second while a GPU is not free
//   for (const Audit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// Compared is, for each session and GPU, the share of its own sampling time in which NVML saw kernels of the worker on the GPU's
// SMs (nvmlDeviceGetProcessUtilization since the question before, so about a second, up to a second late) with the share of a
// second in which the worker was busy by its report page, as the broker read and billed it. It under-reports in a second in which
// the first is more than kPointsMax points above the second; who does so in kSecondsInARow of them in a row is found, once.
//
// Nobody is to be accused wrongly. So of the reported shares the largest of the last kReportedMax seconds counts, since NVML's
// are late; what runs kSettleNs after the GPU was free last is not looked at, since what was queued before nobody has reported; a
// second in which the broker did not look at the worker for nine tenths of the time, or of which NVML has no figure, ends the
// row. A GPU that is free is not looked at: nothing is reported or billed there. Who is billed for more
// than it uses is no under-reporter. Memory is compared by memory_audit.h.
//
// What it does not see: a worker that reports a part of its work at the right moments, up to kReportedMax times as much as it
// says. Pure, in time that it is told; one thread.
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
  // After so many answers without figures, or seconds in which workers said that they were busy and NVML knew none of them.
  static constexpr uint32_t kBlindAfter = 10;

  struct Finding {
    uint64_t session;
    uint32_t device;
    uint32_t seen_percent;      // by NVML, in the last second
    uint32_t reported_percent;  // what counts of it
  };

  void Hear(const ReportedMessage& reported);
  // Who is found by these figures, which were asked for after what was heard last.
  std::vector<Finding> Compare(const ProcessFigures& figures);
  // Why there is nothing to compare with, for people: NVML does not tell of this server's processes. nullptr while it does.
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
    bool heard = false;  // this time
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
