// What calls of the driver API cost an application: the caller's own time for calls that return at once (caller/...), and the
// whole time of those that wait. `run`, beside this file, starts it natively and forwarded and compares.
//
//   driver_bench [--filter REGEX] [--seconds S] [--on-demand] [--list]      # S: of each row, 0.2
//
// --on-demand: it says `ready`, measures all rows for each line that it reads from stdin, says `done` behind them, and ends with
// stdin. So several of them can be started first and measured in turns.
//
// Every row is one line of JSON, as soon as it is there: its name, the median and the least of its samples in microseconds a
// call, their number, the bytes that a call copies. Times are wall-clock.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

#include "protocol/base/clock.h"
#include "tests/bench/driver_rows.h"

namespace tessera {
namespace {

constexpr size_t kSamplesMin = 5;
constexpr uint64_t kSampleNsMin = 5'000;  // below, reading the clock would show

uint64_t TimeOf(const DriverRow& row, GpuAtHand& gpu, int count) {
  const uint64_t begin_ns = MonotonicNs();
  row.run(gpu, count);
  return MonotonicNs() - begin_ns;
}

// The calls of one sample; makes them, and so what they need for the first time.
int CountOf(const DriverRow& row, GpuAtHand& gpu) {
  int count = row.caller ? GpuAtHand::kLaunchesMax : 1;
  for (int attempt = 0; attempt < 3; ++attempt) TimeOf(row, gpu, count), gpu.Synchronize();
  while (!row.caller && count < 1'000 && TimeOf(row, gpu, count) < kSampleNsMin) count *= 2;
  return count;
}

void Measure(const DriverRow& row, GpuAtHand& gpu, uint64_t for_ns) {
  gpu.Reserve(row.bytes);
  const int count = CountOf(row, gpu);
  std::vector<uint64_t> samples_ns;
  const uint64_t end_ns = MonotonicNs() + for_ns;
  while (samples_ns.size() < kSamplesMin || MonotonicNs() < end_ns) {
    samples_ns.push_back(TimeOf(row, gpu, count));
    if (row.caller) gpu.Synchronize();
  }
  std::sort(samples_ns.begin(), samples_ns.end());
  const auto us = [&](uint64_t ns) { return static_cast<double>(ns) * 1e-3 / count; };
  std::printf("{\"name\": \"%s\", \"median_us\": %.4f, \"least_us\": %.4f, \"samples\": %zu, \"bytes\": %zu}\n", row.name.c_str(),
              us(samples_ns[samples_ns.size() / 2]), us(samples_ns.front()), samples_ns.size(), row.bytes);
  std::fflush(stdout);
}

void Say(const char* word) {
  std::puts(word);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  std::regex filter(".");
  double seconds = 0.2;
  bool list = false;
  bool on_demand = false;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--list") == 0) {
      list = true;
    } else if (std::strcmp(argv[i], "--on-demand") == 0) {
      on_demand = true;
    } else if (std::strcmp(argv[i], "--filter") == 0 && has_value) {
      filter = argv[++i];
    } else if (std::strcmp(argv[i], "--seconds") == 0 && has_value) {
      seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: driver_bench [--filter REGEX] [--seconds S] [--on-demand] [--list]\n");
      return 2;
    }
  }
  std::vector<DriverRow> rows = DriverRows();
  std::erase_if(rows, [&](const DriverRow& row) { return !std::regex_search(row.name, filter); });
  if (rows.empty()) {
    std::fprintf(stderr, "driver_bench: no row has such a name; --list shows them\n");
    return 2;
  }
  if (list) {
    for (const DriverRow& row : rows) std::printf("%s\n", row.name.c_str());
    return 0;
  }
  GpuAtHand gpu;
  const auto measure_all = [&] {
    for (const DriverRow& row : rows) Measure(row, gpu, static_cast<uint64_t>(seconds * 1e9));
  };
  if (!on_demand) {
    measure_all();
    return 0;
  }
  Say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    measure_all();
    Say("done");
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
