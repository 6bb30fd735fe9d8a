// tessera-replay: what tokens came to, or would come to.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "programs/completion.h"
#include "programs/manual.h"
#include "protocol/base/small_file.h"
#include "scheduler/policies/policies.h"
#include "scheduler/simulate/loads_of_trace.h"
#include "scheduler/simulate/replay.h"
#include "scheduler/simulate/report.h"
#include "scheduler/simulate/simulation.h"
#include "scheduler/simulate/timeline_svg.h"

namespace tessera {
namespace {

// How the program ends; users read of it in its README and --help.
enum ReplayExitCode : int {
  kReplayOk = 0,
  kReplayUsage = 2,    // the command line was not understood
  kReplayInput = 3,    // the file cannot be read, or is neither a trace nor a load
  kReplayDiffers = 4,  // by the recorded policy, and the answers are others than the recorded ones
  kReplayCannotWrite = 5,
};

constexpr const char* kFooter =
    R"(FILE is a trace that a broker has recorded, or a load to simulate (their forms: scheduler/simulate/README.md).
A trace is replayed by the policy that was recorded, and the answers have to be those that were; with another one, or
with --simulate, the recorded programs are simulated.

Exit codes: 0; 2 the command line was not understood; 3 the file cannot be read, or is neither a trace nor a load, or
what it holds does not fit on a GPU; 4 a replay answered otherwise than the record; 5 a file could not be written

Examples:
  tessera-replay gpu0.trace
  tessera-replay gpu0.trace --policy priority --svg priority.svg
  tessera-replay --load 'a request=0.7 kernel=200us' --load 'b request=0.3 kernel=20ms' --seconds 20 -o json)";

constexpr size_t kInputBytesMax = size_t{512} << 20;

struct Options {
  std::string file;
  std::vector<std::string> loads;
  std::string policy;
  bool simulate = false;
  std::string svg, record;
  std::string output{"text"};
  double seconds = 10, report_us = 20, wake_us = 60, from_s = 0, to_s = 0;
  uint64_t seed = 1;
};

int Fail(int code, const std::string& why) {
  std::fprintf(stderr, "tessera-replay: %s\n", why.c_str());
  return code;
}

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

int64_t Nanoseconds(double value, double unit) { return static_cast<int64_t>(value * unit); }

int Show(const Options& options, const Timeline& timeline, const std::string& record) {
  if (!options.record.empty() && !Write(options.record, record)) {
    return Fail(kReplayCannotWrite, fmt::format("'{}' cannot be written", options.record));
  }
  if (!options.svg.empty()) {
    const int64_t begin_ns = timeline.begin_ns + Nanoseconds(options.from_s, 1e9);
    const int64_t end_ns = options.to_s > 0 ? timeline.begin_ns + Nanoseconds(options.to_s, 1e9) : timeline.end_ns;
    if (begin_ns >= end_ns) return Fail(kReplayUsage, "--from is not before --to, or not before the end");
    if (!Write(options.svg, TimelineAsSvg(timeline, begin_ns, end_ns))) {
      return Fail(kReplayCannotWrite, fmt::format("'{}' cannot be written", options.svg));
    }
  }
  const Report report = MakeReport(timeline);
  std::fputs((options.output == "json" ? ReportAsJson(report) : ReportAsText(report)).c_str(), stdout);
  return std::fflush(stdout) == 0 ? kReplayOk : kReplayCannotWrite;
}

int SimulateAndShow(const Options& options, const std::vector<Load>& loads, bool request_zero, int64_t duration_ns) {
  const SimulationOptions simulation = {.policy = options.policy,
                                        .rules = {.request_zero = request_zero},
                                        .duration_ns = duration_ns,
                                        .report_ns = Nanoseconds(options.report_us, 1e3),
                                        .wake_ns = Nanoseconds(options.wake_us, 1e3),
                                        .spin_ns = 2'000,
                                        .seed = options.seed};
  TimelineBuilder builder;
  std::string record = FormatTraceHead(options.policy, request_zero);
  const Status done = Simulate(simulation, loads, [&](const SchedulerEvent& event) {
    builder.Add(event);
    if (!options.record.empty()) record += FormatTraceEvent(event);
  });
  if (!done.ok()) return Fail(done.code() == StatusCode::kNotFound ? kReplayUsage : kReplayInput, done.message());
  return Show(options, builder.Finish(), record);
}

int RunLoads(Options options, const std::string& text) {
  const Result<std::vector<Load>> loads = ParseLoads(text);
  if (!loads.ok()) return Fail(kReplayInput, loads.status().message());
  bool request_zero = false;
  for (const Load& load : loads.value()) request_zero |= load.spec.request == 0;
  if (options.policy.empty()) options.policy = kDefaultPolicy;
  return SimulateAndShow(options, loads.value(), request_zero, Nanoseconds(options.seconds, 1e9));
}

int RunTrace(Options options, const std::string& text) {
  const Result<SchedulerTrace> trace = ParseTrace(text);
  if (!trace.ok()) return Fail(kReplayInput, fmt::format("'{}': {}", options.file, trace.status().message()));
  if (options.policy.empty()) options.policy = trace.value().policy;
  // Also to know whether the events make sense.
  Result<Replayed> replayed = Replay(trace.value());
  if (!replayed.ok()) return Fail(kReplayInput, fmt::format("'{}': {}", options.file, replayed.status().message()));
  if (options.policy != trace.value().policy || options.simulate) {
    return SimulateAndShow(options, LoadsOf(trace.value()), trace.value().request_zero,
                           replayed->timeline.end_ns - replayed->timeline.begin_ns);
  }
  const int shown = Show(options, replayed->timeline, text);
  if (shown != kReplayOk) return shown;
  return replayed->difference ? Fail(kReplayDiffers, fmt::format("'{}': {}", options.file, *replayed->difference)) : kReplayOk;
}

int Run(const Options& options) {
  if (options.file.empty() == options.loads.empty())
    return Fail(kReplayUsage, "name a file or give --load, not both: see 'tessera-replay --help'");
  if (!options.loads.empty()) {
    std::string text = "tessera-load 1\n";
    for (const std::string& load : options.loads) text += load + "\n";
    return RunLoads(options, text);
  }
  const Result<std::string> text = ReadSmallFile(options.file, kInputBytesMax);
  if (!text.ok()) return Fail(kReplayInput, text.status().message());
  return text.value().starts_with("tessera-load ") ? RunLoads(options, text.value()) : RunTrace(options, text.value());
}

int Main(int argc, char** argv) {
  CLI::App app{"Replays what a broker recorded of a GPU's time, or simulates a load, and tells shares and waits.",
               "tessera-replay"};
  app.set_version_flag("--version", std::string("tessera-replay ") + TESSERA_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.footer(kFooter);
  AddManual(app, kCommandSection);
  Options options;
  std::string shell, policies;
  for (const std::string_view name : PolicyNames()) policies += (policies.empty() ? "" : ",") + std::string(name);
  app.add_option("file", options.file, "A trace, or a load")->type_name("FILE");
  app.add_option("--load", options.loads, "A line of a load; once for each vGPU")->type_name("LINE")->allow_extra_args(false);
  app.add_option("--policy", options.policy, "The policy (default: the recorded one, of a load fair)")
      ->type_name("{" + policies + "}")
      ->check([](const std::string& name) {
        const Result<std::unique_ptr<Policy>> policy = MakePolicy(name);
        return policy.ok() ? "" : policy.status().message();
      });
  app.add_flag("--simulate", options.simulate, "Simulate the programs of a trace by the recorded policy, too");
  app.add_option("--seconds", options.seconds, "How long a load is simulated")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the load's chance")->type_name("N")->capture_default_str();
  app.add_option("--report-delay", options.report_us, "Simulated time from a worker's report to the decision")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--wake-delay", options.wake_us, "Simulated time from a token to a sleeping worker's launch")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--record", options.record, "Write what was simulated as a trace")->type_name("FILE");
  app.add_option("--svg", options.svg, "Draw the timeline")->type_name("FILE");
  app.add_option("--from", options.from_s, "Where the picture begins")->type_name("SECONDS")->check(CLI::NonNegativeNumber);
  app.add_option("--to", options.to_s, "Where the picture ends")->type_name("SECONDS")->check(CLI::NonNegativeNumber);
  app.add_option("-o,--output", options.output, "Form of the output")
      ->type_name("{text,json}")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--completion", shell, "Print a script that completes this program's command line, and exit")
      ->type_name(kShells)
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& text_wanted) {
    app.exit(text_wanted);
    return kReplayOk;
  } catch (const CLI::ParseError& error) {
    return Fail(kReplayUsage, fmt::format("{}: see 'tessera-replay --help'", error.what()));
  }
  if (!shell.empty()) {
    std::fputs(CompletionScript(app, shell).c_str(), stdout);
    return kReplayOk;
  }
  return Run(options);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
