// Sums up a timeline: shares, errors, waits. Pure; any thread.
//
// Shares are of the time between a timeline's begin and end. A vGPU that ran beside n - 1 others got 1/n of that time. Windows of
// 1 s and 10 s begin every 10 ms. A window counts if the vGPU wanted the GPU for 99 % of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/simulate/timeline.h"

namespace tessera {

struct WaitReport {
  uint64_t count = 0;
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
  int64_t longest_ns = 0;
};

// The worst window of a length.
struct WindowReport {
  double error = 0;          // distance from the ideal: requests met, the rest to whoever has least, at every moment
  double below_request = 0;  // 0: never below
};

struct VgpuReport {
  std::string name;
  double request = 0, limit = 1;
  double share = 0;
  double wanted = 0;                         // part of the time
  std::optional<WindowReport> one_second{};  // none: it never wanted the GPU for so long
  std::optional<WindowReport> ten_seconds{};
  double above_limit_one_second = 0;  // of any window, whether it wanted or not; 0: never above
  double above_limit_ten_seconds = 0;
  double above_limit_tenth = 0;  // the same of 100 ms
  WaitReport waits{};
};

struct Report {
  int64_t duration_ns = 0;
  double busy = 0;               // part of the time in which anybody ran
  double idle_while_wanted = 0;  // nobody ran, and somebody wanted to
  std::optional<double> jain;    // of shares / ideal shares, of those that always wanted; none for fewer than two
  uint64_t decisions = 0;
  WaitReport hand_overs;  // from the end of one vGPU's work until the next, waiting one's begins; 0: it began before the end
  std::vector<VgpuReport> vgpus;
};

// `windows_from_ns`: windows that begin earlier do not count.
Report MakeReport(const Timeline& timeline, int64_t windows_from_ns = 0);

// For people, and for programs (JSON; keys as the fields above).
std::string ReportAsText(const Report& report);
std::string ReportAsJson(const Report& report);

}  // namespace tessera
