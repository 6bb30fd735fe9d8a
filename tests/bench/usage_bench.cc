// Does one kind of work for a while, so that somebody can look what it costs the processes that take part: tests/bench/usage.
//
//   usage_bench WORK SECONDS
//
// It prints "ready", waits for a line on stdin, works, prints "done COUNT" and waits for another line. COUNT is of bytes for
// the kinds of copies, of calls for the others. The work "memory" has more steps: what it has done is printed before each
// line that it waits for.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "protocol/base/clock.h"
#include "tests/bench/gpu_at_hand.h"

namespace tessera {
namespace {

constexpr size_t kCopyBytes = size_t{64} << 20;

// One piece of work, and how much it was.
struct Work {
  const char* name;
  std::function<uint64_t(GpuAtHand& gpu)> piece;
};

uint64_t Copy(GpuAtHand& gpu, bool to_device, HostKind kind) {
  gpu.Copy(to_device, kind, kCopyBytes);
  gpu.Synchronize();
  return kCopyBytes;
}

const Work kWorks[] = {
    {"to_device_pinned", [](GpuAtHand& gpu) { return Copy(gpu, true, HostKind::kPinned); }},
    {"from_device_pinned", [](GpuAtHand& gpu) { return Copy(gpu, false, HostKind::kPinned); }},
    {"to_device_pageable", [](GpuAtHand& gpu) { return Copy(gpu, true, HostKind::kPageable); }},
    {"from_device_pageable", [](GpuAtHand& gpu) { return Copy(gpu, false, HostKind::kPageable); }},
    {"to_device_registered", [](GpuAtHand& gpu) { return Copy(gpu, true, HostKind::kRegistered); }},
    {"from_device_registered", [](GpuAtHand& gpu) { return Copy(gpu, false, HostKind::kRegistered); }},
    {"launches",
     [](GpuAtHand& gpu) {
       for (int i = 0; i < GpuAtHand::kLaunchesMax; ++i) gpu.Launch();
       gpu.Synchronize();
       return uint64_t{GpuAtHand::kLaunchesMax};
     }},
    {"round_trips",
     [](GpuAtHand& gpu) {
       gpu.Launch();
       gpu.Synchronize();
       return uint64_t{1};
     }},
    {"idle",
     [](GpuAtHand&) {
       std::this_thread::sleep_for(std::chrono::milliseconds(100));
       return uint64_t{0};
     }},
};

// Says what was done and waits to be told to go on.
void Pause(const std::string& what) {
  std::puts(what.c_str());
  std::fflush(stdout);
  for (int byte = 0; byte != '\n';) {
    byte = std::getchar();
    if (byte == EOF) std::exit(1);
  }
}

void GrowStepByStep() {
  Pause("start");
  CHECK_DRIVER(cuInit(0));
  Pause("cuInit");
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  Pause("context");
  GpuAtHand gpu;
  gpu.Launch();
  gpu.Synchronize();
  Pause("kernel");
  gpu.Reserve(kCopyBytes);
  for (const bool to_device : {true, false}) {
    for (const HostKind kind : {HostKind::kPinned, HostKind::kPageable}) Copy(gpu, to_device, kind);
  }
  Pause("copies");
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "memory") == 0) {
    GrowStepByStep();
    return 0;
  }
  for (const Work& work : kWorks) {
    if (argc != 3 || std::strcmp(argv[1], work.name) != 0) continue;
    GpuAtHand gpu;
    if (std::strstr(work.name, "device") != nullptr) gpu.Reserve(kCopyBytes);
    for (int i = 0; i < 3; ++i) work.piece(gpu);
    Pause("ready");
    const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(std::atof(argv[2]) * 1e9);
    uint64_t count = 0;
    while (MonotonicNs() < end_ns) count += work.piece(gpu);
    Pause("done " + std::to_string(count));
    return 0;
  }
  std::fprintf(stderr, "usage: usage_bench WORK SECONDS, or usage_bench memory; WORK is one of");
  for (const Work& work : kWorks) std::fprintf(stderr, " %s", work.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
