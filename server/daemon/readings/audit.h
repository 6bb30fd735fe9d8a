// Finds workers that use a GPU without reporting it: compares what NVML says of each worker process with the worker's own report.
//
//   audit.Hear(reported, ask);                     // from the broker, once a second while a GPU is not free
//   for (const Audit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// A figure is two times between two messages of the broker: `seen`, in which kernels of the worker ran on the GPU's SMs by NVML
// (nvmlDeviceGetProcessUtilization since the last question, up to kLate figures late), and `reported`, in which the worker was
// busy by its report page, as the broker read and billed it. Sums of figures are compared, so that what one figure has too much
// and the next too little is nothing. A worker is found, once, when in the last kFiguresMin to kFiguresMax figures, of T in all,
//
//   more = seen - reported - kPart x T - rounding - edges
//
// is more than what NVML may have wrong by chance:
//
//   reported  the largest sum of as many figures that end now, or up to kLate figures earlier: NVML is late
//   kPart     5 points, which are not looked after: a report is true to two of them, by the GPU's own clock (tests/gpu/quota)
//   rounding  1 % of T: NVML tells whole per cents
//   edges     NVML's period begins and ends within a figure. At either end, half of what reported shares differ there
//   chance    On an H100 and an H200 a sample says of a fifth or a sixth of a second that one process had all of it. Tokens and
//             samples are in step for a while, so that neighbours say the same: the figures of two tenants with half of the GPU
//             each differ as if there were 2.5 samples a second (tests/gpu/quota, noise). So `more` is not believed until that
//             many, each all or nothing, have it with a probability of exp(-kEvidence) at most. Of a sum of more than kCorrelated
//             seconds a quarter of the others count: a program may stay in step. Of a worker that is hardly busy all six
//             samples a second count, and one that has reported nothing cannot be seen by chance. Where this GPU has shown in
//             kLearnedMin sums of kCorrelated figures that NVML is truer, kDeviations of what these sums differ by are enough.
//
// A GPU shows it while two workers or more are on it. Of a worker with an even load, what NVML sees beyond the report is as
// steady as NVML is true; that a worker under-reports by the same part each second changes nothing about it. Besides, per cents
// that no seven whole samples can have on the average must be among the figures: a program in step with the samples is steady,
// too.
//
// Nobody must be accused wrongly. Work that ran before a GPU was shared is nobody's to report: a worker that may have some is not
// compared for up to kBacklogMaxNs. The first figure of a session is not compared, but counts as reported: what NVML says of it
// may have been before. A second that the broker watched for less than nine tenths, or for which NVML has an impossible figure,
// begins anew. A free GPU is not looked at. A worker that is billed for more than it uses is no under-reporter.
//
// What it cannot see is in docs/share-a-gpu.md. Pure: the caller tells the time. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

#include "server/daemon/readings/process_figures.h"
#include "server/daemon/readings/report_tracks.h"
#include "server/gate/broker_line.h"

namespace tessera {

class Audit {
 public:
  static constexpr double kPart = 0.05;
  static constexpr double kRoundingPart = 0.01;
  static constexpr double kDeviations = 6;
  static constexpr double kEvidence = 18;  // exp(-18): once in 65 million sums
  static constexpr double kSamplesPerSecond = 6;
  static constexpr double kIndependentPerSecond = 2.5;
  static constexpr size_t kLate = 2;
  static constexpr size_t kFiguresMin = 3;
  static constexpr size_t kFiguresMax = 40;
  static constexpr size_t kCorrelated = 5;
  static constexpr size_t kLearnedMin = 60;
  static constexpr size_t kLearnedMax = 240;
  static constexpr uint64_t kBacklogMaxNs = 10'000'000'000;
  // Of two messages of the broker.
  static constexpr uint64_t kApartMinNs = 500'000'000;
  // The audit is blind after so many answers without figures, or seconds in which workers were busy and NVML knew none of them.
  static constexpr uint32_t kBlindAfter = 10;

  struct Finding {
    uint64_t session;
    uint32_t device;
    double seconds;  // that were compared
    double seen_percent;
    double reported_percent;
  };

  void Hear(const ReportedMessage& reported, const AskOfWorker& ask);
  // The findings by these figures, which were asked for after the last Hear(), and before that after the last but one.
  std::vector<Finding> Compare(const ProcessFigures& figures);
  // The last figures came too late to know what they belong to: begins anew.
  void Skip();
  // For people: why there is nothing to compare with, since NVML does not tell of this server's processes; nullptr: it does.
  const char* blind() const { return blind_; }

  // How many sessions were found on this GPU, in all.
  uint32_t found(uint32_t device) const { return device < found_.size() ? found_[device] : 0; }

 private:
  // In seconds.
  struct Figure {
    double passed = 0;
    double reported = 0;
    double seen = 0;
    double more() const { return seen - reported; }
  };
  struct Track {
    bool is_new = true;
    uint64_t watched_ns = 0;  // as heard last
    uint64_t busy_ns = 0;
    uint64_t known_ns = 0;  // it was watched without a pause for so long
    bool is_settled = false;
    bool was_settled = false;  // with the figure before
    Figure next;               // not seen yet; without time: none
    // The first one was heard, and is not compared.
    std::deque<Figure> figures;
  };
  // Of a worker with an even load: what NVML said of its last kCorrelated figures, beside those before.
  struct Lesson {
    double square;         // of the difference
    double coarse_square;  // as whole samples would give it, on the average
    bool is_fine;          // the last figure is no average of whole samples
  };
  // Of those from `begin` on, before `end`.
  static Figure SumOf(const std::deque<Figure>& figures, size_t begin, size_t end);
  // How different the reports are of this figure and the kLate before it.
  static double SpreadBefore(const std::deque<Figure>& figures, size_t last);
  // Of those from `first` on: none is so different from its predecessor as whole samples would make it.
  static bool IsSteady(const std::deque<Figure>& figures, size_t first);
  static void HearRow(const ReportedMessage::Row& row, uint64_t passed_ns, bool may_have_backlog, Track& track);
  void LookForBlindness(const ProcessFigures& figures);
  void Learn(uint32_t device);
  // Whether NVML's samples have been seen to be truer than whole ones.
  bool IsTrue(uint32_t device) const;
  double LearnedVariance(uint32_t device) const;
  // True if the last `count` figures of the track say that its worker under-reports.
  bool UnderReports(const Track& track, size_t count, uint32_t device, Finding* finding) const;

  uint64_t at_ns_ = 0;
  ReportTracks<Track> tracks_;
  std::set<uint64_t> found_sessions_;
  std::array<uint32_t, kGateRowsMax> found_{};
  std::array<std::deque<Lesson>, kGateRowsMax> learned_;  // by GPU, at most kLearnedMax of each
  bool seen_ = false;                                     // NVML has told of one of the workers
  uint32_t untold_ = 0;
  uint32_t unseen_ = 0;
  const char* blind_ = nullptr;
};

}  // namespace tessera
