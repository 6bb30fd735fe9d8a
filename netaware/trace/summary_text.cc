#include "netaware/trace/summary_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "netaware/trace/duration_text.h"
#include "netaware/trace/trace_advice.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kNamesShown = 3;
constexpr size_t kNameShown = 60;  // the printed length of a kernel's name
constexpr size_t kAdviceShown = 3;

std::string Line(const TraceSummary& summary, std::string_view what, double ns, std::string_view rest) {
  const double part = summary.wall_ns > 0 ? 100 * ns / summary.wall_ns : 0;
  return fmt::format("{:<14} {:>10} {:>4.0f} %  {}\n", what, DurationText(ns), part, rest);
}

// The first names, with their times and counts.
std::string Names(std::span<const TraceSummary::Sum> sums) {
  std::string text;
  for (const TraceSummary::Sum& sum : sums.first(std::min(sums.size(), kNamesShown))) {
    text += fmt::format("{}{} {} ({}x{})", text.empty() ? "" : ", ", Printable(sum.name, kNameShown), DurationText(sum.ns),
                        sum.count, sum.thread.empty() ? "" : ", thread " + sum.thread);
  }
  return text;
}

nlohmann::ordered_json Json(std::span<const TraceSummary::Sum> sums) {
  auto list = nlohmann::ordered_json::array();
  for (const TraceSummary::Sum& sum : sums) {
    nlohmann::ordered_json one = {{"name", sum.name}};
    if (!sum.thread.empty()) one["thread"] = sum.thread;
    one["count"] = sum.count;
    one["ns"] = std::llround(sum.ns);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::string SummaryText(const TraceSummary& summary) {
  std::string text = fmt::format("{}: {} from the first call to the last; {} thread{} with calls, {} server{}{}\n",
                                 summary.program, DurationText(summary.wall_ns), summary.threads, summary.threads == 1 ? "" : "s",
                                 summary.servers, summary.servers == 1 ? "" : "s", summary.over_link ? " over a network" : "");
  std::string launches = fmt::format("{} launches", summary.launches);
  if (summary.unmeasured > 0) launches += fmt::format(", {} not measured", summary.unmeasured);
  if (!summary.kernels.empty()) launches += ": " + Names(summary.kernels);
  text += Line(summary, "GPU busy", summary.gpu_ns, launches);
  text += fmt::format("thread {}, which was longest in calls ({}):\n", summary.thread, summary.calls);
  text += Line(summary, "  program", summary.program_ns, "outside of CUDA");
  text += Line(summary, "  library", summary.library_ns, "calls that waited for nobody");
  text += Line(summary, "  GPU", summary.gpu_wait_ns, "waited while a GPU was busy");
  text += Line(summary, "  server", summary.server_ns, "waited while the server did what was asked");
  text +=
      Line(summary, summary.over_link ? "  network" : "  hand-over", summary.way_ns, "waited for the way to the server and back");
  text += fmt::format("round trips    {}{}{}\n", summary.round_trips,
                      summary.functions.empty() ? "" : ", without the GPU: ", Names(summary.functions));
  const std::vector<TraceAdvice> advice = AdviceFor(summary);
  for (size_t i = 0; i < std::min(advice.size(), kAdviceShown); ++i) {
    text += fmt::format("{} {}\n", i == 0 ? "what to change:" : "               ", advice[i].text);
  }
  return text;
}

std::string SummaryJson(const TraceSummary& summary) {
  const auto ns = [](double value) { return std::llround(value); };
  nlohmann::ordered_json json = {{"schema_version", 1},
                                 {"program", summary.program},
                                 {"threads", summary.threads},
                                 {"servers", summary.servers},
                                 {"over_link", summary.over_link},
                                 {"wall_ns", ns(summary.wall_ns)},
                                 {"events_lost", summary.events_lost}};
  json["gpu"] = {{"busy_ns", ns(summary.gpu_ns)},
                 {"launches", summary.launches},
                 {"unmeasured", summary.unmeasured},
                 {"kernels", Json(summary.kernels)}};
  json["thread"] = {{"name", summary.thread},
                    {"calls", summary.calls},
                    {"program_ns", ns(summary.program_ns)},
                    {"library_ns", ns(summary.library_ns)},
                    {"gpu_ns", ns(summary.gpu_wait_ns)},
                    {"server_ns", ns(summary.server_ns)},
                    {"way_ns", ns(summary.way_ns)}};
  json["round_trips"] = {{"count", summary.round_trips}, {"functions", Json(summary.functions)}};
  json["advice"] = nlohmann::ordered_json::array();
  for (const TraceAdvice& advice : AdviceFor(summary)) json["advice"].push_back({{"id", advice.id}, {"text", advice.text}});
  return json.dump() + "\n";
}

}  // namespace tessera
