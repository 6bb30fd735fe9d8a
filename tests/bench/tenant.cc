// One tenant of a GPU: launches kernels of a fixed amount of work, as many as it can, and tells how many have run until when.
//
//   tenant --calibrate                 prints how many iterations of the kernel take 1 µs on this GPU, alone
//   tenant ITERATIONS SECONDS [--blocks N] [--pause US] [--graph KERNELS] [--stamps FILE]
//          [--latency] [--turns FILE --index 0|1 --kernels N] [--fault trap|address|endless]
//          [--host-function US] [--stream-each] [--lockstep 0|1]
//
// A line of JSON each 100 ms: {"s": seconds since the first launch, "kernels": how many have run}. The kernels count themselves
// in host memory, so that nothing is asked of the driver for it. At most kAhead of them are queued. Work is instructions, not
// time: a kernel that is suspended takes longer and counts once.
//
// With --latency a last line tells how long a launch and the wait for it took: {"count": N, "p50_us": T, "p99_us": T}; with
// --pause alone, else nothing is waited for. --fault is what the kernel after SECONDS / 2 does; the program ends with 3 once the
// driver has told of it, or never.
//
// With --host-function each kernel is waited for, and behind it a host function that sleeps so long. With --stream-each a kernel
// goes into a stream of its own, which is destroyed at once. With --lockstep each kernel is two, on GPU 0 and GPU 1, of which the
// named one is launched first, and both are waited for.
//
// Two tenants with --turns and the same FILE run N kernels each in turns, by what they write there themselves: what a change
// from one process to the other costs without anybody between them.
//
// The FILE of --stamps gets the begin and the end of each kernel in nanoseconds (64 bits each) of the clock that all processes of
// a GPU have in common (%globaltimer, PTX ISA), up to kStampsMax of them; not those of graphs.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
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
.visible .entry work(.param .u64 counter, .param .u64 iterations, .param .u64 sink, .param .u64 stamp)
{
  .reg .pred %p<6>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd8, [stamp];
  mov.u32 %r4, %tid.x;
  setp.ne.u32 %p4, %r4, 0;
  setp.eq.u64 %p5, %rd8, 0;
  or.pred %p4, %p4, %p5;
  @%p4 bra BEGIN;
  // The complement of the earliest begin is the greatest.
  mov.u64 %rd9, %globaltimer;
  not.b64 %rd9, %rd9;
  red.global.max.u64 [%rd8], %rd9;
BEGIN:
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
  @%p4 bra END;
  mov.u64 %rd9, %globaltimer;
  red.global.max.u64 [%rd8+8], %rd9;
END:
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
.visible .entry trap()
{
  trap;
  ret;
}
.visible .entry address()
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 64;
  st.volatile.global.u64 [%rd1], %rd1;
  ret;
}
.visible .entry endless(.param .u64 sink)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [sink];
AGAIN:
  ld.volatile.global.u64 %rd2, [%rd1];
  setp.ne.u64 %p1, %rd2, 1;
  @%p1 bra AGAIN;
  ret;
}
)";

// How many kernels are queued at most, and how many are waited for at once.
constexpr uint64_t kAhead = 256;
constexpr uint64_t kStep = 32;
constexpr unsigned kThreads = 128;

// What a kernel leaves behind.
struct Stamp {
  uint64_t not_begin_ns;
  uint64_t end_ns;
};
constexpr size_t kStampsMax = 1 << 20;

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

class Tenant {
 public:
  explicit Tenant(unsigned blocks, CUdevice device = 0) : blocks_(blocks) {
    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context_, device));
    Use();
    CHECK_DRIVER(cuModuleLoadData(&module_, kWork));
    CHECK_DRIVER(cuModuleGetFunction(&work_, module_, "work"));
    CHECK_DRIVER(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuMemAlloc(&sink_, 4096));
    void* host = nullptr;
    CHECK_DRIVER(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    std::memset(host, 0, 4096);
    counter_ = static_cast<volatile uint64_t*>(host);
    CHECK_DRIVER(cuMemHostGetDevicePointer(&counted_, host, 0));
    if (blocks_ == 0) {
      int multiprocessors = 0;
      CHECK_DRIVER(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
      blocks_ = static_cast<unsigned>(multiprocessors) * 4;
    }
  }

  // The calling thread's GPU is this one's.
  void Use() { CHECK_DRIVER(cuCtxSetCurrent(context_)); }

  void KeepStamps() {
    CHECK_DRIVER(cuMemAlloc(&stamps_, kStampsMax * sizeof(Stamp)));
    CHECK_DRIVER(cuMemsetD8(stamps_, 0, kStampsMax * sizeof(Stamp)));
    CHECK_DRIVER(cuCtxSynchronize());  // the stream of the kernels does not wait for it
  }
  // Begin and end of each kernel so far, which have all ended.
  void WriteStamps(const char* path) {
    std::vector<Stamp> stamps(launched_);
    if (launched_ > 0) CHECK_DRIVER(cuMemcpyDtoH(stamps.data(), stamps_, stamps.size() * sizeof(Stamp)));
    for (Stamp& stamp : stamps) stamp.not_begin_ns = ~stamp.not_begin_ns;
    std::FILE* const file = std::fopen(path, "wb");
    if (file == nullptr || std::fwrite(stamps.data(), sizeof(Stamp), stamps.size(), file) != stamps.size()) {
      std::perror(path);
      std::exit(1);
    }
    std::fclose(file);
  }

  void Launch(uint64_t iterations) { LaunchInto(stream_, iterations); }
  // No event of the own stream tells of what other streams do.
  void AwaitRoom() {
    while (alone_ - count() >= kAhead) std::this_thread::sleep_for(std::chrono::microseconds(20));
    ++alone_;
  }
  void LaunchIntoStreamOfItsOwn(uint64_t iterations) {
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    LaunchInto(stream, iterations);
    CHECK_DRIVER(cuStreamDestroy(stream));
  }
  void SleepOnHost(uint64_t us) {
    const auto sleep = [](void* time) {
      std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<uintptr_t>(time)));
    };
    CHECK_DRIVER(cuLaunchHostFunc(stream_, sleep, reinterpret_cast<void*>(us)));
  }
  void LaunchInto(CUstream stream, uint64_t iterations) {
    CUdeviceptr stamp = 0;
    if (stamps_ != 0 && launched_ < kStampsMax) stamp = stamps_ + launched_++ * sizeof(Stamp);
    void* parameters[] = {&counted_, &iterations, &sink_, &stamp};
    CHECK_DRIVER(cuLaunchKernel(work_, blocks_, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr));
  }
  // Never returns.
  [[noreturn]] void Fail(const char* fault) {
    CUfunction function;
    CHECK_DRIVER(cuModuleGetFunction(&function, module_, fault));
    CHECK_DRIVER(cuMemsetD8(sink_, 0, 4096));
    CHECK_DRIVER(cuCtxSynchronize());
    void* parameters[] = {&sink_};
    CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr));
    const CUresult result = cuStreamSynchronize(stream_);
    std::fprintf(stderr, "%s: error %d\n", fault, static_cast<int>(result));
    std::_Exit(3);
  }
  void Synchronize() { CHECK_DRIVER(cuStreamSynchronize(stream_)); }
  uint64_t count() const { return *counter_; }
  CUstream stream() const { return stream_; }

 private:
  unsigned blocks_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction work_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr sink_ = 0;
  CUdeviceptr counted_ = 0;
  CUdeviceptr stamps_ = 0;
  size_t launched_ = 0;  // with a stamp
  uint64_t alone_ = 0;   // in streams of their own
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

// Whose turn it is of two processes, in a file of both.
class Turns {
 public:
  Turns(const char* path, uint32_t index) : index_(index) {
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void* page =
        file < 0 || ftruncate(file, 4096) != 0 ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
      std::perror(path);
      std::exit(1);
    }
    close(file);
    page_ = static_cast<Page*>(page);
    page_->here.fetch_or(1u << index);
  }
  ~Turns() { page_->here.store(0); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Alone there are no turns.
  void Await() {
    while (page_->here.load() == 0b11 && page_->turn.load() != index_) {
    }
  }
  void Pass() { page_->turn.store(1 - index_); }

 private:
  struct Page {
    std::atomic<uint32_t> here;  // a bit for each of both
    std::atomic<uint32_t> turn;
  };
  const uint32_t index_;
  Page* page_;
};

void TakeTurns(Tenant& tenant, Turns&& turns, uint64_t iterations, uint64_t kernels, double seconds) {
  const Clock::time_point begin = Clock::now();
  while (Seconds(begin) < seconds) {
    turns.Await();
    for (uint64_t i = 0; i < kernels; ++i) tenant.Launch(iterations);
    tenant.Synchronize();
    turns.Pass();
  }
}

void PrintCount(double at_s, uint64_t kernels) {
  std::printf("{\"s\": %.6f, \"kernels\": %llu}\n", at_s, static_cast<unsigned long long>(kernels));
  std::fflush(stdout);
}

void RunInLockstep(const std::array<Tenant*, 2>& tenants, uint64_t iterations, double seconds) {
  const Clock::time_point begin = Clock::now();
  uint64_t steps = 0;
  for (double told_s = 0, now_s = 0; now_s < seconds; now_s = Seconds(begin)) {
    for (Tenant* tenant : tenants) {
      tenant->Use();
      tenant->Launch(iterations);
    }
    for (Tenant* tenant : tenants) {
      tenant->Use();
      tenant->Synchronize();
    }
    ++steps;
    if (now_s - told_s < 0.1) continue;
    told_s = now_s;
    PrintCount(now_s, steps);
  }
}

struct Manner {
  uint64_t pause_us;
  uint64_t graph_kernels;
  bool latency;
  const char* fault;  // or null
  uint64_t host_function_us;
  bool stream_each;
};

void PrintLatency(std::vector<double>& times_s) {
  if (times_s.empty()) return;
  std::ranges::sort(times_s);
  const auto at_us = [&](size_t percent) { return 1e6 * times_s[(times_s.size() - 1) * percent / 100]; };
  std::printf("{\"count\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", times_s.size(), at_us(50), at_us(99));
}

void Run(Tenant& tenant, uint64_t iterations, double seconds, const Manner& manner) {
  const uint64_t graph_kernels = manner.graph_kernels;
  std::vector<double> times_s;
  CUgraphExec graph = graph_kernels > 0 ? Graph(tenant, iterations, graph_kernels) : nullptr;
  const Clock::time_point begin = Clock::now();
  std::thread teller([&] {
    for (int i = 1; Seconds(begin) < seconds; ++i) {
      std::this_thread::sleep_until(begin + std::chrono::milliseconds(100) * i);
      PrintCount(Seconds(begin), tenant.count());
    }
  });
  std::vector<CUevent> events(kAhead / kStep);
  for (CUevent& event : events) CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  for (uint64_t step = 0; Seconds(begin) < seconds; ++step) {
    CUevent event = events[step % events.size()];
    if (step >= events.size()) CHECK_DRIVER(cuEventSynchronize(event));
    for (uint64_t i = 0; i < kStep;) {
      const Clock::time_point launched = Clock::now();
      if (manner.fault != nullptr && Seconds(begin) > seconds / 2) tenant.Fail(manner.fault);
      if (graph != nullptr) {
        CHECK_DRIVER(cuGraphLaunch(graph, tenant.stream()));
        i += graph_kernels;
      } else {
        if (manner.stream_each) {
          tenant.AwaitRoom();
          tenant.LaunchIntoStreamOfItsOwn(iterations);
        } else {
          tenant.Launch(iterations);
        }
        ++i;
      }
      if (manner.host_function_us > 0) tenant.SleepOnHost(manner.host_function_us);
      if (manner.pause_us == 0 && manner.host_function_us == 0) continue;
      tenant.Synchronize();
      times_s.push_back(Seconds(launched));
      std::this_thread::sleep_for(std::chrono::microseconds(manner.pause_us));
    }
    CHECK_DRIVER(cuEventRecord(event, tenant.stream()));
  }
  teller.join();
  if (manner.latency) PrintLatency(times_s);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto word = [&](const char* name) -> const char* {
    const auto found = std::find(words.begin(), words.end(), name);
    return found == words.end() || found + 1 == words.end() ? nullptr : (found + 1)->c_str();
  };
  const auto option = [&](const char* name) -> uint64_t {
    const char* const value = word(name);
    return value == nullptr ? 0 : std::strtoull(value, nullptr, 10);
  };
  const bool calibrates = !words.empty() && words[0] == "--calibrate";
  if (!calibrates && words.size() < 2) {
    std::fprintf(stderr,
                 "usage: tenant --calibrate | ITERATIONS SECONDS [--blocks N] [--pause US] [--graph KERNELS] [--stamps FILE]\n"
                 "                           [--latency] [--turns FILE --index 0|1 --kernels N]\n"
                 "                           [--fault trap|address|endless] [--host-function US] [--stream-each]\n"
                 "                           [--lockstep 0|1]\n");
    return 2;
  }
  Tenant tenant(static_cast<unsigned>(option("--blocks")));
  if (calibrates) return Calibrate(tenant);
  const char* const stamps = word("--stamps");
  if (stamps != nullptr) tenant.KeepStamps();
  const uint64_t iterations = std::strtoull(words[0].c_str(), nullptr, 10);
  const double seconds = std::strtod(words[1].c_str(), nullptr);
  if (const char* const first = word("--lockstep")) {
    Tenant other(static_cast<unsigned>(option("--blocks")), 1);
    const bool this_first = std::strcmp(first, "0") == 0;
    RunInLockstep({this_first ? &tenant : &other, this_first ? &other : &tenant}, iterations, seconds);
  } else if (const char* const turns = word("--turns")) {
    TakeTurns(tenant, Turns(turns, option("--index") != 0), iterations, option("--kernels"), seconds);
  } else {
    const auto said = [&](const char* name) { return std::ranges::find(words, name) != words.end(); };
    Run(tenant, iterations, seconds,
        {option("--pause"), option("--graph"), said("--latency"), word("--fault"), option("--host-function"),
         said("--stream-each")});
  }
  if (stamps != nullptr) {
    tenant.Synchronize();
    tenant.WriteStamps(stamps);
  }
  return 0;
}
