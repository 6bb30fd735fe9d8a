#include "scheduler/simulate/timeline_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr int kLeft = 150, kTop = 34, kColumns = 1000, kRowHeight = 46, kBarHeight = 30, kRight = 90, kBottom = 40;
// Okabe and Ito's colours, which those who see fewer of them can tell apart.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7a00"};

// Which part of each column the intervals cover.
std::vector<double> Covered(const std::vector<Interval>& intervals, int64_t begin_ns, int64_t end_ns) {
  std::vector<double> covered(kColumns);
  const double column_ns = static_cast<double>(end_ns - begin_ns) / kColumns;
  for (const Interval& each : intervals) {
    const double from = static_cast<double>(std::max(each.begin_ns, begin_ns) - begin_ns) / column_ns;
    const double until = static_cast<double>(std::min(each.end_ns, end_ns) - begin_ns) / column_ns;
    for (int column = std::max(0, static_cast<int>(from)); column < kColumns && column < until; ++column) {
      covered[static_cast<size_t>(column)] +=
          std::max(0.0, std::min(until, column + 1.0) - std::max(from, static_cast<double>(column)));
    }
  }
  return covered;
}

// Bars of equal columns are one.
std::string Bars(const std::vector<double>& heights, double bottom, double height_max, const char* colour) {
  std::string bars;
  for (size_t begin = 0; begin < heights.size();) {
    size_t end = begin + 1;
    while (end < heights.size() && std::abs(heights[end] - heights[begin]) < 0.005) ++end;
    const double height = std::min(1.0, heights[begin]) * height_max;
    if (height > 0.05) {
      bars += fmt::format("<rect x=\"{}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"{}\"/>\n", kLeft + begin,
                          bottom - height, end - begin, height, colour);
    }
    begin = end;
  }
  return bars;
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string TimeText(double time_ns, double step_ns) {
  return step_ns >= 1e8   ? fmt::format("{:.1f} s", time_ns / 1e9)
         : step_ns >= 1e6 ? fmt::format("{:.0f} ms", time_ns / 1e6)
                          : fmt::format("{:.2f} ms", time_ns / 1e6);
}

// A line for each round number of time, about ten of them.
std::string Axis(int64_t begin_ns, int64_t end_ns, int bottom) {
  const auto length_ns = static_cast<double>(end_ns - begin_ns);
  double step_ns = 1000;
  for (int i = 0; step_ns * 12 < length_ns; ++i) step_ns *= i % 3 == 1 ? 2.5 : 2;
  std::string axis;
  const auto first = static_cast<int64_t>(static_cast<double>(begin_ns) / step_ns);
  for (int64_t i = first; static_cast<double>(i) * step_ns <= static_cast<double>(end_ns); ++i) {
    const double time_ns = static_cast<double>(i) * step_ns;
    if (time_ns < static_cast<double>(begin_ns)) continue;
    const double x = kLeft + (time_ns - static_cast<double>(begin_ns)) / length_ns * kColumns;
    axis += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#d0d0d0\"/>\n", x, kTop, bottom);
    axis += Text(x, bottom + 16, "middle", TimeText(time_ns, step_ns));
  }
  return axis;
}

double Sum(const std::vector<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace

std::string TimelineAsSvg(const Timeline& timeline, int64_t begin_ns, int64_t end_ns) {
  const int bottom = kTop + kRowHeight * static_cast<int>(timeline.lanes.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kLeft + kColumns + kRight, bottom + kBottom);
  svg += Axis(begin_ns, end_ns, bottom);
  svg += Text(kLeft, 20, "start", "colour: ran; grey: waited; black line: had the token");
  svg += Text(kLeft + kColumns + kRight - 8, 20, "end", "busy");
  for (size_t i = 0; i < timeline.lanes.size(); ++i) {
    const TimelineLane& lane = timeline.lanes[i];
    const char* colour = kColours[i % kColours.size()];
    const double base = kTop + kRowHeight * static_cast<double>(i) + kBarHeight + 6;
    const std::vector<double> ran = Covered(lane.ran, begin_ns, end_ns);
    svg += Bars(Covered(lane.wanted, begin_ns, end_ns), base, kBarHeight, "#dddddd");
    svg += Bars(ran, base, kBarHeight, colour);
    svg += Bars(Covered(lane.tokens, begin_ns, end_ns), base + 4, 3, "#202020");
    svg += Text(kLeft - 8, base - 16, "end", lane.spec.name.substr(0, 20));
    svg += Text(kLeft - 8, base - 2, "end", fmt::format("{:.0f} to {:.0f} %", 100 * lane.spec.request, 100 * lane.spec.limit));
    svg += Text(kLeft + kColumns + kRight - 8, base - 8, "end", fmt::format("{:.1f} %", 100 * Sum(ran) / kColumns));
  }
  return svg + "</svg>\n";
}

}  // namespace tessera
