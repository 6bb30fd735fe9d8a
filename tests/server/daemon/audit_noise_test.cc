// The audit of time over long times of simulated sessions: honest ones, whom it never finds, and cheats, of whom a table says
// when.
//
// Time goes in steps of a millisecond. NVML samples six times a second. What a sample says of a process is, of a true NVML, which
// part of the time since the sample before it had the GPU; of a coarse one, whether it has the GPU now. A nearly whole one is
// coarse, and says 97 % for all. One that turns is true for two minutes, and nearly whole from then on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "server/daemon/readings/audit.h"

namespace tessera {
namespace {

constexpr uint64_t kMsNs = 1'000'000;

enum class Nvml { kTrue, kCoarse, kNearlyWhole, kTurns };
constexpr int kTurnsMs = 120'000;

// What one session wants, and does.
struct Load {
  double share = 0.5;        // of the time, while it works
  double token_ms = 10;      // how long it has the GPU without a pause, on the average
  double works_s = 0;        // it works for so long, on the average, and then
  double rests_s = 0;        // does not for so long; 0: it never rests
  double cheat = 0;          // the share that it uses beside what it reports
  double true_report = 1.0;  // what it reports of what it uses
  bool even = false;         // its pauses are all of one length
};

AuditedWorker NothingQueued(uint64_t, uint32_t) { return {}; }

class Session {
 public:
  explicit Session(const Load& load) : load_(load) {}

  struct Ms {
    double used, reported;
  };
  Ms Step(std::mt19937& random) {
    if (load_.rests_s != 0 && --phase_ms_ <= 0) {
      works_ = !works_;
      phase_ms_ = 1000 * std::exponential_distribution<double>(1 / (works_ ? load_.works_s : load_.rests_s))(random);
    }
    if (--token_left_ms_ <= 0) {
      has_ = !has_;
      const double mean_ms = has_ ? load_.token_ms : load_.token_ms * (1 - load_.share) / load_.share;
      token_left_ms_ += mean_ms * (load_.even ? 1 : std::uniform_real_distribution<double>(0.5, 1.5)(random));
    }
    const double worked = works_ && has_ ? 1 : 0;
    const double more =
        worked == 0 && std::uniform_real_distribution<double>(0, 1)(random) * (1 - load_.share) < load_.cheat ? 1 : 0;
    return {worked + more, worked * load_.true_report};
  }

 private:
  const Load load_;
  bool works_ = true, has_ = false;
  double phase_ms_ = 0, token_left_ms_ = 0;
};

// Sessions 1, 2, ... on one GPU.
class Simulated {
 public:
  Simulated(Nvml nvml, const std::vector<Load>& loads, unsigned seed) : nvml_(nvml), random_(seed) {
    for (const Load& load : loads) Add(load);
  }

  void Add(const Load& load) {
    sessions_.emplace_back(load);
    parts_.emplace_back();
  }
  // Seconds until this session was found; negative: it was not. The others are honest: none of them is.
  double RunUntilFound(uint64_t session, double seconds) {
    const int begin_ms = ms_;
    while (ms_ < begin_ms + static_cast<int>(seconds * 1000)) {
      for (const Audit::Finding& finding : Step()) {
        if (finding.session == session) return (ms_ - begin_ms) / 1000.0;
        ADD_FAILURE() << "session " << finding.session << " is honest: " << finding.seen_percent << " % seen, "
                      << finding.reported_percent << " % reported";
      }
    }
    return -1;
  }

 private:
  struct Part {
    double reported_ms = 0;           // in all
    double used_ms = 0, sampled = 0;  // since the last sample; of samples since the last question
  };

  std::vector<Audit::Finding> Step() {
    ++ms_;
    const bool samples = ms_ >= sample_ms_;
    if (samples) ++samples_;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      const Session::Ms ms = sessions_[i].Step(random_);
      Part& part = parts_[i];
      part.reported_ms += ms.reported;
      part.used_ms += ms.used;
      if (!samples) continue;
      const bool is_true = nvml_ == Nvml::kTrue || (nvml_ == Nvml::kTurns && ms_ < kTurnsMs);
      part.sampled += is_true                  ? std::min(1.0, part.used_ms / (ms_ - sampled_ms_))
                      : nvml_ == Nvml::kCoarse ? ms.used
                                               : 0.97 * ms.used;
      part.used_ms = 0;
    }
    if (samples) {
      sampled_ms_ = ms_;
      sample_ms_ = ms_ + 1000 / Audit::kSamplesPerSecond;
    }
    if (ms_ == told_ms_) return Ask();
    if (ms_ < tell_ms_) return {};
    ReportedMessage reported{static_cast<uint64_t>(ms_) * kMsNs, {}};
    for (size_t i = 0; i < parts_.size(); ++i) {
      reported.rows.push_back(
          {i + 1, 0, static_cast<uint64_t>(ms_) * kMsNs, static_cast<uint64_t>(parts_[i].reported_ms * kMsNs)});
    }
    audit_.Hear(reported, NothingQueued);
    tell_ms_ = ms_ + 1000 + Up(100);
    told_ms_ = ms_ + 1 + Up(50);
    return {};
  }
  std::vector<Audit::Finding> Ask() {
    ProcessFigures figures{true, {}};
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (samples_ != 0 && parts_[i].sampled > 0)
        figures.list.push_back({i + 1, 0, static_cast<uint32_t>(std::lround(100 * parts_[i].sampled / samples_))});
      parts_[i].sampled = 0;
    }
    samples_ = 0;
    return audit_.Compare(figures);
  }
  int Up(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }

  const Nvml nvml_;
  std::mt19937 random_;
  std::vector<Session> sessions_;
  std::vector<Part> parts_;
  Audit audit_;
  int ms_ = 0, sampled_ms_ = 0, tell_ms_ = 1000, told_ms_ = 0, samples_ = 0;
  double sample_ms_ = 0;
};

const std::vector<std::vector<Load>> kHonest = {
    {{.share = 0.5}, {.share = 0.5}},
    {{.share = 0.33}, {.share = 0.33}, {.share = 0.3, .token_ms = 5}},
    {{.share = 0.9}, {.share = 0.1}},
    {{.share = 0.02, .token_ms = 1}, {.share = 0.95}},
    {{.share = 0.001, .token_ms = 1}, {.share = 0.5, .token_ms = 40}},
    {{.share = 0.5, .true_report = 0.98}, {.share = 0.45, .true_report = 0.98}},
    // Loads that come and go, in parts of a second and in minutes.
    {{.share = 0.9, .works_s = 0.5, .rests_s = 0.5}, {.share = 0.5}},
    {{.share = 0.8, .works_s = 3, .rests_s = 2}, {.share = 0.5, .works_s = 10, .rests_s = 10}},
    {{.share = 0.6, .works_s = 60, .rests_s = 30}, {.share = 0.3}},
    {{.share = 0.3, .works_s = 0.1, .rests_s = 2}, {.share = 0.6, .works_s = 1, .rests_s = 0.2}},
    // One that works in step with the samples.
    {{.share = 0.5, .token_ms = 1000.0 / 12, .even = true}, {.share = 0.4}},
};

TEST(AuditNoiseTest, NobodyHonestIsFound) {
  constexpr unsigned kSeeds = 20;
  constexpr double kSeconds = 300;
  for (const Nvml nvml : {Nvml::kTrue, Nvml::kCoarse, Nvml::kNearlyWhole, Nvml::kTurns}) {
    for (size_t kind = 0; kind < kHonest.size(); ++kind) {
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "kind " << kind << ", seed " << seed << ", NVML " << static_cast<int>(nvml));
        Simulated gpu(nvml, kHonest[kind], seed);
        gpu.RunUntilFound(0, kSeconds);
      }
    }
  }
}

// In the worst of some seeds; negative: not in ten minutes in one of them.
double FoundAfter(Nvml nvml, double reported, double cheat, bool is_known) {
  constexpr unsigned kSeeds = 5;
  double worst = 0;
  for (unsigned seed = 0; seed < kSeeds && worst >= 0; ++seed) {
    Simulated gpu(nvml, {{.share = 0.3}, {.share = 0.25}}, seed);
    if (is_known) gpu.RunUntilFound(0, 120);
    gpu.Add({.share = std::max(reported, 1e-9), .cheat = cheat});
    const double seconds = gpu.RunUntilFound(3, 600);
    worst = seconds < 0 ? seconds : std::max(worst, seconds);
  }
  return worst;
}

TEST(AuditNoiseTest, CheatsAreFound) {
  std::printf("seconds until a cheat is found in the worst of five runs; -1: not in ten minutes\n");
  std::printf("%-32s%8s%8s%8s%8s%8s%8s\n", "points beyond the report", "5", "6", "8", "10", "20", "45");
  for (const double reported : {0.0, 0.1, 0.3}) {
    for (const auto& [nvml, is_known, name] :
         {std::tuple(Nvml::kTrue, true, "true, known"), std::tuple(Nvml::kTrue, false, "true, new"),
          std::tuple(Nvml::kCoarse, true, "coarse")}) {
      std::printf("%3.0f %% reported, %-16s", 100 * reported, name);
      for (const double points : {5, 6, 8, 10, 20, 45}) {
        const double seconds = FoundAfter(nvml, reported, points / 100, is_known);
        std::printf("%8.1f", seconds);
        std::fflush(stdout);
        const bool is_sure = nvml == Nvml::kTrue && (is_known || reported == 0) && points >= 10;
        // The first message, the first figure, and five more, each up to 1.1 s and the answer.
        if (is_sure) {
          EXPECT_TRUE(seconds > 0 && seconds < 8) << points << " points, " << name;
        }
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace tessera
