// One tenant of a GPU: launches kernels of a fixed amount of work, as many as it can, and tells how many have run until when.
//
//   tenant --calibrate                 prints how many iterations of the kernel take 1 µs on this GPU, alone
//   tenant ITERATIONS SECONDS [--blocks N] [--pause US] [--graph KERNELS]
//
// A line of JSON each 100 ms: {"s": seconds since the first launch, "kernels": how many have run}. The kernels count themselves
// in host memory, so that nothing is asked of the driver for it. At most kAhead of them are queued. Work is instructions, not
// time: a kernel that is suspended takes longer and counts once.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/programs/check.h"

namespace {

constexpr const char* kWork = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u64 counter, .param .u64 iterations, .param .u64 sink)
{
  .reg .pred %p<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [iterations];
  ld.param.u64 %rd2, [counter];
  ld.param.u64 %rd6, [sink];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u64 %rd3, 0;
LOOP:
  mad.lo.s32 %r1, %r1, 1664525, 1013904223;
  mad.lo.s32 %r1, %r1, 1664525, 1013904223;
  mad.lo.s32 %r1, %r1, 1664525, 1013904223;
  mad.lo.s32 %r1, %r1, 1664525, 1013904223;
  add.u64 %rd3, %rd3, 1;
  setp.lt.u64 %p1, %rd3, %rd1;
  @%p1 bra LOOP;
  setp.eq.u32 %p2, %r1, 12345;
  @%p2 st.global.u32 [%rd6], %r1;
  mov.u32 %r3, %tid.x;
  or.b32 %r3, %r3, %r2;
  setp.ne.u32 %p3, %r3, 0;
  @%p3 bra DONE;
  ld.volatile.global.u64 %rd4, [%rd2];
  add.u64 %rd4, %rd4, 1;
  st.volatile.global.u64 [%rd2], %rd4;
DONE:
  ret;
}
)";

// How many kernels are queued at most, and how many are waited for at once.
constexpr uint64_t kAhead = 256;
constexpr uint64_t kStep = 32;
constexpr unsigned kThreads = 128;

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

class Tenant {
 public:
  explicit Tenant(unsigned blocks) : blocks_(blocks) {
    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context_, 0));
    CHECK_DRIVER(cuCtxSetCurrent(context_));
    CUmodule module;
    CHECK_DRIVER(cuModuleLoadData(&module, kWork));
    CHECK_DRIVER(cuModuleGetFunction(&work_, module, "work"));
    CHECK_DRIVER(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuMemAlloc(&sink_, 4096));
    void* host = nullptr;
    CHECK_DRIVER(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    std::memset(host, 0, 4096);
    counter_ = static_cast<volatile uint64_t*>(host);
    CHECK_DRIVER(cuMemHostGetDevicePointer(&counted_, host, 0));
    if (blocks_ == 0) {
      int multiprocessors = 0;
      CHECK_DRIVER(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
      blocks_ = static_cast<unsigned>(multiprocessors) * 4;
    }
  }

  void Launch(uint64_t iterations) {
    void* parameters[] = {&counted_, &iterations, &sink_};
    CHECK_DRIVER(cuLaunchKernel(work_, blocks_, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr));
  }
  void Synchronize() { CHECK_DRIVER(cuStreamSynchronize(stream_)); }
  uint64_t count() const { return *counter_; }
  CUstream stream() const { return stream_; }

 private:
  unsigned blocks_;
  CUcontext context_ = nullptr;
  CUfunction work_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr sink_ = 0;
  CUdeviceptr counted_ = 0;
  volatile uint64_t* counter_ = nullptr;
};

int Calibrate(Tenant& tenant) {
  // Long enough that what a launch itself takes does not count.
  double best = 0;
  uint64_t iterations = 1;
  for (int rounds = 0; rounds < 5;) {
    const Clock::time_point begin = Clock::now();
    tenant.Launch(iterations);
    tenant.Synchronize();
    const double took_s = Seconds(begin);
    if (took_s < 0.03) {
      iterations *= 2;
      continue;
    }
    best = std::max(best, static_cast<double>(iterations) / (took_s * 1e6));
    ++rounds;
  }
  std::printf("%.6f\n", best);
  return 0;
}

CUgraphExec Graph(Tenant& tenant, uint64_t iterations, uint64_t kernels) {
  CUgraph graph;
  CUgraphExec exec;
  CHECK_DRIVER(cuStreamBeginCapture(tenant.stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
  for (uint64_t i = 0; i < kernels; ++i) tenant.Launch(iterations);
  CHECK_DRIVER(cuStreamEndCapture(tenant.stream(), &graph));
  CHECK_DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

int Run(Tenant& tenant, uint64_t iterations, double seconds, uint64_t pause_us, uint64_t graph_kernels) {
  CUgraphExec graph = graph_kernels > 0 ? Graph(tenant, iterations, graph_kernels) : nullptr;
  const Clock::time_point begin = Clock::now();
  std::thread teller([&] {
    for (int i = 1; Seconds(begin) < seconds; ++i) {
      std::this_thread::sleep_until(begin + std::chrono::milliseconds(100) * i);
      std::printf("{\"s\": %.6f, \"kernels\": %llu}\n", Seconds(begin), static_cast<unsigned long long>(tenant.count()));
      std::fflush(stdout);
    }
  });
  std::vector<CUevent> events(kAhead / kStep);
  for (CUevent& event : events) CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  for (uint64_t step = 0; Seconds(begin) < seconds; ++step) {
    CUevent event = events[step % events.size()];
    if (step >= events.size()) CHECK_DRIVER(cuEventSynchronize(event));
    for (uint64_t i = 0; i < kStep;) {
      if (graph != nullptr) {
        CHECK_DRIVER(cuGraphLaunch(graph, tenant.stream()));
        i += graph_kernels;
      } else {
        tenant.Launch(iterations);
        ++i;
      }
      if (pause_us == 0) continue;
      tenant.Synchronize();
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    }
    CHECK_DRIVER(cuEventRecord(event, tenant.stream()));
  }
  teller.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto option = [&](const char* name) -> uint64_t {
    const auto found = std::find(words.begin(), words.end(), name);
    return found == words.end() || found + 1 == words.end() ? 0 : std::strtoull((found + 1)->c_str(), nullptr, 10);
  };
  const bool calibrates = !words.empty() && words[0] == "--calibrate";
  if (!calibrates && words.size() < 2) {
    std::fprintf(stderr, "usage: tenant --calibrate | ITERATIONS SECONDS [--blocks N] [--pause US] [--graph KERNELS]\n");
    return 2;
  }
  Tenant tenant(static_cast<unsigned>(option("--blocks")));
  if (calibrates) return Calibrate(tenant);
  return Run(tenant, std::strtoull(words[0].c_str(), nullptr, 10), std::strtod(words[1].c_str(), nullptr), option("--pause"),
             option("--graph"));
}
