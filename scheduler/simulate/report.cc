#include "scheduler/simulate/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scheduler/simulate/share_grid.h"

namespace tessera {
namespace {

constexpr double kAlways = 0.99;  // wanting for as much of a window counts as all of it

struct Steps {
  size_t begin, end;
};

// Sums over windows of `steps`, one for each at which such a window begins.
std::vector<double> WindowSums(const std::vector<double>& values, Steps all, size_t steps) {
  std::vector<double> sums;
  if (all.end < all.begin + steps) return sums;
  const auto first = values.begin() + static_cast<ptrdiff_t>(all.begin);
  double sum = std::accumulate(first, first + static_cast<ptrdiff_t>(steps), 0.0);
  sums.push_back(sum);
  for (size_t end = all.begin + steps; end < all.end; ++end) sums.push_back(sum += values[end] - values[end - steps]);
  return sums;
}

size_t StepsOf(int64_t window_ns) { return static_cast<size_t>(window_ns / kGridStepNs); }

std::optional<WindowReport> Worst(const GridLane& lane, Steps steps, int64_t window_ns, double request) {
  const auto length_ns = static_cast<double>(window_ns);
  const std::vector<double> got = WindowSums(lane.got_ns, steps, StepsOf(window_ns));
  const std::vector<double> wanted = WindowSums(lane.wanted_ns, steps, StepsOf(window_ns));
  const std::vector<double> ideal = WindowSums(lane.ideal_ns, steps, StepsOf(window_ns));
  std::optional<WindowReport> worst;
  for (size_t i = 0; i < got.size(); ++i) {
    if (wanted[i] < kAlways * length_ns) continue;
    if (!worst) worst.emplace();
    worst->error = std::max(worst->error, std::abs(got[i] - ideal[i]) / length_ns);
    worst->below_request = std::max(worst->below_request, request - got[i] / length_ns);
  }
  return worst;
}

double AboveLimit(const GridLane& lane, Steps steps, int64_t window_ns, double limit) {
  double above = 0;
  for (const double got_ns : WindowSums(lane.got_ns, steps, StepsOf(window_ns))) {
    above = std::max(above, got_ns / static_cast<double>(window_ns) - limit);
  }
  return above;
}

WaitReport Waits(std::vector<int64_t> waits_ns) {
  if (waits_ns.empty()) return {};
  std::sort(waits_ns.begin(), waits_ns.end());
  const auto at = [&](size_t percent) { return waits_ns[(waits_ns.size() - 1) * percent / 100]; };
  return {waits_ns.size(), at(50), at(99), waits_ns.back()};
}

WaitReport HandOvers(const Timeline& timeline) {
  struct Run {
    size_t lane;
    Interval interval;
  };
  std::vector<Run> runs;
  for (size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    for (const Interval& interval : timeline.lanes[lane].ran) runs.push_back({lane, interval});
  }
  std::ranges::sort(runs, {}, [](const Run& run) { return run.interval.begin_ns; });
  std::vector<int64_t> gaps_ns;
  for (size_t i = 1; i < runs.size(); ++i) {
    const auto& [lane, next] = runs[i];
    const int64_t end_ns = runs[i - 1].interval.end_ns;
    if (lane == runs[i - 1].lane) continue;
    const std::vector<Interval>& wanted = timeline.lanes[lane].wanted;
    const auto after = std::ranges::upper_bound(wanted, std::min(end_ns, next.begin_ns), {}, &Interval::begin_ns);
    const bool waited = after != wanted.begin() && std::prev(after)->end_ns > end_ns;
    if (waited) gaps_ns.push_back(std::max<int64_t>(0, next.begin_ns - end_ns));
  }
  return Waits(std::move(gaps_ns));
}

nlohmann::json AsJson(const WaitReport& waits) {
  return {{"count", waits.count}, {"p50_ns", waits.p50_ns}, {"p99_ns", waits.p99_ns}, {"longest_ns", waits.longest_ns}};
}

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// (sum of x)^2 / (n sum of x^2): 1 when all are equal (Jain, Chiu, Hawe 1984).
std::optional<double> Jain(const Report& report, const ShareGrid& grid) {
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < grid.lanes.size(); ++i) {
    const double ideal_ns = Sum(grid.lanes[i].ideal_ns);
    if (report.vgpus[i].wanted < kAlways || ideal_ns <= 0) continue;
    const double x = Sum(grid.lanes[i].got_ns) / ideal_ns;
    sum += x;
    squares += x * x;
    count += 1;
  }
  if (count < 2 || squares <= 0) return std::nullopt;
  return sum * sum / (count * squares);
}

nlohmann::json AsJson(const std::optional<WindowReport>& window) {
  if (!window) return nullptr;
  return {{"error", window->error}, {"below_request", window->below_request}};
}

std::string Points(const std::optional<WindowReport>& window) {
  return window ? fmt::format("{:6.2f}", 100 * window->error) : "     -";
}

std::string Milliseconds(int64_t time_ns) { return fmt::format("{:.3f}", static_cast<double>(time_ns) / 1e6); }

}  // namespace

Report MakeReport(const Timeline& timeline, int64_t windows_from_ns) {
  const ShareGrid grid = MakeShareGrid(timeline);
  const auto first = static_cast<size_t>(std::max<int64_t>(0, (windows_from_ns - timeline.begin_ns) / kGridStepNs));
  const Steps steps{first, grid.steps};
  Report report;
  report.duration_ns = timeline.end_ns - timeline.begin_ns;
  report.decisions = timeline.decisions;
  const double duration_ns = std::max(1.0, static_cast<double>(report.duration_ns));
  report.busy = grid.busy_ns / duration_ns;
  report.idle_while_wanted = grid.idle_while_wanted_ns / duration_ns;
  for (size_t i = 0; i < grid.lanes.size(); ++i) {
    const GridLane& lane = grid.lanes[i];
    const VgpuSpec& spec = timeline.lanes[i].spec;
    VgpuReport& each = report.vgpus.emplace_back();
    each.name = spec.name;
    each.request = spec.request;
    each.limit = spec.limit;
    each.share = Sum(lane.got_ns) / duration_ns;
    each.wanted = Sum(lane.wanted_ns) / duration_ns;
    each.one_second = Worst(lane, steps, kSecondNs, spec.request);
    each.ten_seconds = Worst(lane, steps, 10 * kSecondNs, spec.request);
    each.above_limit_tenth = AboveLimit(lane, steps, kSecondNs / 10, spec.limit);
    each.above_limit_one_second = AboveLimit(lane, steps, kSecondNs, spec.limit);
    each.above_limit_ten_seconds = AboveLimit(lane, steps, 10 * kSecondNs, spec.limit);
    each.waits = Waits(timeline.lanes[i].waits_ns);
  }
  report.jain = Jain(report, grid);
  report.hand_overs = HandOvers(timeline);
  return report;
}

std::string ReportAsText(const Report& report) {
  std::string text = fmt::format("{:.3f} s, {} decisions; busy {:.2f} %, idle while wanted {:.2f} %",
                                 static_cast<double>(report.duration_ns) / 1e9, report.decisions, 100 * report.busy,
                                 100 * report.idle_while_wanted);
  if (report.jain) text += fmt::format(", Jain index {:.4f}", *report.jain);
  text += fmt::format("\n{:<16} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9}\n", "vGPU", "request", "limit",
                      "wanted", "got", "err 1s", "err 10s", "waits", "p50 ms", "p99 ms", "max ms");
  for (const VgpuReport& each : report.vgpus) {
    text += fmt::format("{:<16} {:7.2f} {:7.2f} {:7.2f} {:7.2f} {:>7} {:>7} {:7} {:>9} {:>9} {:>9}\n", each.name,
                        100 * each.request, 100 * each.limit, 100 * each.wanted, 100 * each.share, Points(each.one_second),
                        Points(each.ten_seconds), each.waits.count, Milliseconds(each.waits.p50_ns),
                        Milliseconds(each.waits.p99_ns), Milliseconds(each.waits.longest_ns));
  }
  if (const WaitReport& gaps = report.hand_overs; gaps.count > 0) {
    text += fmt::format("{} hand-overs to one that waited: p50 {} ms, p99 {} ms, longest {} ms\n", gaps.count,
                        Milliseconds(gaps.p50_ns), Milliseconds(gaps.p99_ns), Milliseconds(gaps.longest_ns));
  }
  return text + "Shares in per cent of the GPU's time, errors in points.\n";
}

std::string ReportAsJson(const Report& report) {
  nlohmann::json json = {{"duration_ns", report.duration_ns},
                         {"decisions", report.decisions},
                         {"busy", report.busy},
                         {"idle_while_wanted", report.idle_while_wanted},
                         {"jain", report.jain ? nlohmann::json(*report.jain) : nlohmann::json()},
                         {"hand_overs", AsJson(report.hand_overs)},
                         {"vgpus", nlohmann::json::array()}};
  for (const VgpuReport& each : report.vgpus) {
    json["vgpus"].push_back({{"name", each.name},
                             {"request", each.request},
                             {"limit", each.limit},
                             {"share", each.share},
                             {"wanted", each.wanted},
                             {"one_second", AsJson(each.one_second)},
                             {"ten_seconds", AsJson(each.ten_seconds)},
                             {"above_limit_tenth", each.above_limit_tenth},
                             {"above_limit_one_second", each.above_limit_one_second},
                             {"above_limit_ten_seconds", each.above_limit_ten_seconds},
                             {"waits", AsJson(each.waits)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
