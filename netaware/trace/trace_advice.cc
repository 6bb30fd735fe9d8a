#include "netaware/trace/trace_advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "netaware/trace/duration_text.h"

namespace tessera {
namespace {

constexpr double kMost = 0.7, kMuch = 0.4, kSome = 0.15, kLittle = 0.05;  // fractions of the whole time
constexpr uint64_t kManyLaunches = 1000;
constexpr double kShortNs = 20'000;  // in ns: about the time that the launch of a kernel costs a program

double Part(const TraceSummary& summary, double ns) { return summary.wall_ns > 0 ? ns / summary.wall_ns : 0; }

double PartOf(const TraceSummary& summary, bool (*is_one)(std::string_view function)) {
  double ns = 0;
  for (const TraceSummary::Sum& function : summary.functions) ns += is_one(function.name) ? function.ns : 0;
  return Part(summary, ns);
}

// The first function that matches, for a sentence: its name, calls and time.
std::string FirstOf(const TraceSummary& summary, bool (*is_one)(std::string_view function)) {
  for (const TraceSummary::Sum& function : summary.functions) {
    if (is_one(function.name)) return fmt::format("{} ({} calls, {})", function.name, function.count, DurationText(function.ns));
  }
  return "";
}

bool Has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool ReadsBack(std::string_view name) { return Has(name, "DtoH"); }
bool Synchronizes(std::string_view name) { return Has(name, "Synchronize"); }
bool Polls(std::string_view name) { return name == "cuEventQuery" || Has(name, "cuStreamQuery"); }
bool Allocates(std::string_view name) { return Has(name, "cuMemAlloc") || Has(name, "cuMemFree") || Has(name, "cuMemHostAlloc"); }
bool Loads(std::string_view name) {
  return Has(name, "cuModuleLoad") || Has(name, "cuLibraryLoad") || Has(name, "cuLinkComplete") || Has(name, "GetFunction");
}

double GpuPart(const TraceSummary& summary) { return Part(summary, summary.gpu_ns); }

double MeanLaunchNs(const TraceSummary& summary) {
  double ns = 0;
  for (const TraceSummary::Sum& kernel : summary.kernels) ns += kernel.ns;
  return summary.launches > summary.unmeasured ? ns / static_cast<double>(summary.launches - summary.unmeasured) : 0;
}

struct Row {
  const char* id;
  bool (*applies)(const TraceSummary& summary);
  std::string (*text)(const TraceSummary& summary);
};

// The order is that of the output.
constexpr Row kRows[] = {
    {"events-lost", [](const TraceSummary& s) { return s.events_lost > 0; },
     [](const TraceSummary& s) {
       return fmt::format("{} events had no room in the trace: trace a shorter run before you believe the rest.", s.events_lost);
     }},
    {"launch-blocking", [](const TraceSummary& s) { return s.launch_calls > 0 && s.waiting_launches * 2 > s.launch_calls; },
     [](const TraceSummary&) {
       return std::string("Launches wait for their results: unset CUDA_LAUNCH_BLOCKING and TESSERA_LAUNCH_BLOCKING.");
     }},
    {"polling", [](const TraceSummary& s) { return PartOf(s, Polls) >= kLittle; },
     [](const TraceSummary& s) {
       return fmt::format("{} asks again and again: wait with cuEventSynchronize, or ask less often.", FirstOf(s, Polls));
     }},
    {"read-back", [](const TraceSummary& s) { return PartOf(s, ReadsBack) >= kSome; },
     [](const TraceSummary& s) {
       return fmt::format(
           "{} waits for each result: read several together, or only every so many steps (.item(), .cpu() and prints in a loop "
           "do that).",
           FirstOf(s, ReadsBack));
     }},
    {"synchronise", [](const TraceSummary& s) { return PartOf(s, Synchronizes) >= kSome; },
     [](const TraceSummary& s) {
       return fmt::format("{} waits with an idle GPU: synchronise once for several steps, not after each.",
                          FirstOf(s, Synchronizes));
     }},
    {"allocating", [](const TraceSummary& s) { return PartOf(s, Allocates) >= kLittle; },
     [](const TraceSummary& s) {
       return fmt::format("{} waits for the server: keep memory and use it again (cudaMallocAsync, or the cache of a framework).",
                          FirstOf(s, Allocates));
     }},
    {"loading", [](const TraceSummary& s) { return PartOf(s, Loads) >= kSome; },
     [](const TraceSummary& s) {
       return fmt::format(
           "{} loads code: let CUDA_MODULE_LOADING be LAZY; a second run finds the code at the server and is faster.",
           FirstOf(s, Loads));
     }},
    {"short-kernels",
     [](const TraceSummary& s) { return s.launches >= kManyLaunches && MeanLaunchNs(s) < kShortNs && GpuPart(s) < kMost; },
     [](const TraceSummary& s) {
       return fmt::format("{} launches take {} each on the GPU: give larger batches, or put them into a CUDA graph.", s.launches,
                          DurationText(MeanLaunchNs(s)));
     }},
    {"server", [](const TraceSummary& s) { return Part(s, s.server_ns) >= kSome; },
     [](const TraceSummary&) {
       return std::string(
           "The server takes long for what it is asked: see in 'tessera top' whether others use the GPU, or whether a vGPU's "
           "share is used up.");
     }},
    {"way", [](const TraceSummary& s) { return Part(s, s.way_ns) >= kSome; },
     [](const TraceSummary& s) {
       return s.over_link
                  ? fmt::format(
                        "The network takes {} of each of {} round trips: make fewer calls that wait, or run the program nearer.",
                        DurationText(s.way_ns / static_cast<double>(std::max<uint64_t>(s.round_trips, 1))), s.round_trips)
                  : fmt::format(
                        "Waiting {} times for the server's process takes {}: make fewer calls that wait, or give it more cores.",
                        s.round_trips, DurationText(s.way_ns));
     }},
    {"program", [](const TraceSummary& s) { return Part(s, s.program_ns) >= kMuch && GpuPart(s) < kMost; },
     [](const TraceSummary& s) {
       return fmt::format(
           "Thread {} is busy outside of CUDA most of the time, which no GPU makes shorter: profile it (perf, py-spy), or let "
           "other threads prepare its data.",
           s.thread);
     }},
    {"gpu", [](const TraceSummary& s) { return GpuPart(s) >= kMost; },
     [](const TraceSummary& s) {
       return fmt::format(
           "The GPU is busy most of the time, so that it is remote costs little: make {} faster, or take a faster GPU.",
           s.kernels.empty() ? "kernels" : s.kernels.front().name);
     }},
    {"no-launches", [](const TraceSummary& s) { return s.launch_calls == 0; },
     [](const TraceSummary&) {
       return std::string(
           "The program launched nothing: if it should use the GPU, see what it says of CUDA, and 'tessera doctor'.");
     }},
};

}  // namespace

std::vector<TraceAdvice> AdviceFor(const TraceSummary& summary) {
  std::vector<TraceAdvice> found;
  for (const Row& row : kRows) {
    if (row.applies(summary)) found.push_back({row.id, row.text(summary)});
  }
  if (found.empty()) found.push_back({"nothing", "No part stands out: nothing here is easy to make faster."});
  return found;
}

}  // namespace tessera
