// A program that keeps a device busy and believes nothing: two threads with a stream each copy, compute and copy back, from
// ordinary and from pinned memory, and compare every word with what a processor makes of it.
//
//   load [--seed N] [--rounds N | --seconds S]
//
// Prints "ok" and exits with 0; "lost CODE (line N)" and 3 when a call failed, as it must once the server is gone; "wrong ..."
// and 1 when a result is not what it should be. Nothing else ends it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>

namespace {

constexpr const char* kMix = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry mix(.param .u64 words, .param .u32 count, .param .u32 factor)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [factor];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r1;
  @%p ret;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  mad.lo.s32 %r7, %r7, %r2, %r6;
  st.global.u32 [%rd3], %r7;
  ret;
}
)";

constexpr uint32_t kWordsMax = 1 << 16;
constexpr uint32_t kBlock = 128;
constexpr int kThreads = 2;

struct Lost {
  CUresult result;
  int line;
};

void Check(CUresult result, int line) {
  if (result != CUDA_SUCCESS) throw Lost{result, line};
}
#define CHECK(call) Check((call), __LINE__)

// What one thread has, and gives back whatever happens.
struct Work {
  Work(CUcontext context, CUfunction mix) : mix(mix) {
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost(reinterpret_cast<void**>(&pinned), kWordsMax * sizeof(uint32_t)));
  }
  ~Work() {
    cuStreamSynchronize(stream);  // nothing is under way any more that uses this
    cuMemFreeHost(pinned);
    cuStreamDestroy(stream);
  }
  CUfunction mix;
  CUstream stream = nullptr;
  uint32_t* pinned = nullptr;
  std::atomic<int> called{0};  // host functions
};

void CUDA_CB CountUp(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

// False when a word is wrong.
bool Round(Work& work, std::mt19937& random) {
  const uint32_t count = 1 + random() % kWordsMax;
  const uint32_t factor = random() | 1;
  const size_t bytes = count * sizeof(uint32_t);
  const bool pinned = random() % 2 == 0;
  const bool in_stream_order = random() % 2 == 0;
  std::vector<uint32_t> words(count), ordinary(count);
  for (uint32_t& word : words) word = random();
  uint32_t* host = pinned ? work.pinned : ordinary.data();
  std::memcpy(host, words.data(), bytes);
  CUdeviceptr device;
  CHECK(in_stream_order ? cuMemAllocAsync(&device, bytes, work.stream) : cuMemAlloc(&device, bytes));
  CHECK(cuMemcpyHtoDAsync(device, host, bytes, work.stream));
  uint32_t launched = count, multiplied = factor;
  void* parameters[] = {&device, &launched, &multiplied};
  CHECK(cuLaunchKernel(work.mix, (count + kBlock - 1) / kBlock, 1, 1, kBlock, 1, 1, 0, work.stream, parameters, nullptr));
  const int called = work.called.load();
  CHECK(cuLaunchHostFunc(work.stream, CountUp, &work.called));
  CHECK(cuMemcpyDtoHAsync(host, device, bytes, work.stream));
  if (in_stream_order) CHECK(cuMemFreeAsync(device, work.stream));
  CHECK(cuStreamSynchronize(work.stream));
  if (!in_stream_order) CHECK(cuMemFree(device));
  for (uint32_t i = 0; i < count; ++i) {
    if (host[i] == words[i] * factor + i) continue;
    std::printf("wrong word %u of %u: %u, not %u\n", i, count, host[i], words[i] * factor + i);
    return false;
  }
  const int calls = work.called.load() - called;
  if (calls != 1) std::printf("wrong: the host function was called %d times\n", calls);
  return calls == 1;
}

struct Options {
  uint32_t seed = 1;
  uint64_t rounds = 20;
  double seconds = 0;  // not 0: so long instead
};

// 0, 1 or 3, as of the program.
int RunThread(CUcontext context, CUfunction mix, const Options& options, uint32_t seed) {
  try {
    Work work(context, mix);
    std::mt19937 random(seed);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
    const auto goes_on = [&](uint64_t round) {
      return options.seconds > 0 ? std::chrono::steady_clock::now() < end : round < options.rounds;
    };
    for (uint64_t round = 0; goes_on(round); ++round) {
      if (!Round(work, random)) return 1;
    }
    return 0;
  } catch (const Lost& lost) {
    std::printf("lost %d (line %d)\n", static_cast<int>(lost.result), lost.line);
    return 3;
  }
}

int Run(const Options& options) {
  CUcontext context;
  CUmodule module;
  CUfunction mix;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, kMix));
  CHECK(cuModuleGetFunction(&mix, module, "mix"));
  int codes[kThreads] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { codes[i] = RunThread(context, mix, options, options.seed * kThreads + static_cast<uint32_t>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  int worst = 0;
  for (const int code : codes) {
    if (code == 1 || worst == 0) worst = code;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") options.seed = static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    if (name == "--rounds") options.rounds = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seconds") options.seconds = std::strtod(argv[i + 1], nullptr);
  }
  int code = 3;
  try {
    code = Run(options);
  } catch (const Lost& lost) {
    std::printf("lost %d (line %d)\n", static_cast<int>(lost.result), lost.line);
  }
  if (code == 0) std::puts("ok");
  return code;
}
