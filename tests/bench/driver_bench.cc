// What calls of the driver API cost an application: the caller's own time for calls that return at once, and the whole time
// of those that wait. An ordinary program of libcuda.so.1: `run`, beside this file, starts it natively and forwarded and
// compares. Times are wall-clock; those marked "caller" leave out what happens after the call returned.
#include <benchmark/benchmark.h>
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
#include <memory>
#include <vector>

namespace {

// Calls in a row whose time is taken together; the driver's queue takes about a thousand.
constexpr int kBatch = 200;

constexpr char kKernels[] = R"(
.version 7.8
.target sm_75
.address_size 64
.visible .entry three(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }
.visible .entry many(.param .align 8 .b8 p[2048]) { ret; }
)";

#define DRIVER(call)                                                     \
  do {                                                                   \
    if (const CUresult code = (call); code != CUDA_SUCCESS) {            \
      std::fprintf(stderr, "%s: error %d\n", #call, static_cast<int>(code)); \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

struct Gpu {
  CUcontext context;
  CUfunction three, many;
  CUstream stream;
  CUevent event;
  CUdeviceptr memory;
  char* pinned;
  static constexpr size_t kBytes = size_t{64} << 20;

  Gpu() {
    CUmodule module;
    DRIVER(cuInit(0));
    DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cuCtxSetCurrent(context));
    DRIVER(cuModuleLoadData(&module, kKernels));
    DRIVER(cuModuleGetFunction(&three, module, "three"));
    DRIVER(cuModuleGetFunction(&many, module, "many"));
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuMemAlloc(&memory, kBytes));
    DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&pinned), kBytes));
    Fill(pinned);
  }
  // Zero pages that nobody wrote are copied faster than data.
  static void Fill(char* bytes) {
    uint32_t state = 1;
    for (size_t i = 0; i < kBytes; i += sizeof(state)) {
      state = state * 1664525 + 1013904223;
      std::memcpy(bytes + i, &state, sizeof(state));
    }
  }
  static Gpu& Get() {
    static Gpu gpu;
    return gpu;
  }
  void LaunchThree() {
    uint64_t a = 0, b = 0;
    uint32_t n = 0;
    void* parameters[] = {&a, &b, &n};
    DRIVER(cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  }
  void LaunchMany() {
    static char block[2048];
    void* parameters[] = {block};
    DRIVER(cuLaunchKernel(many, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  }
  void Synchronize() { DRIVER(cuStreamSynchronize(stream)); }
};

// The caller's time of one `call`; what it started is waited for outside the clock.
template <typename CallT>
void Caller(benchmark::State& state, CallT call) {
  Gpu& gpu = Gpu::Get();
  for (int i = 0; i < kBatch; ++i) call(gpu);
  gpu.Synchronize();
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) call(gpu);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    gpu.Synchronize();
    state.SetIterationTime(time.count() / kBatch);
  }
}

// The whole time of one `call`.
template <typename CallT>
void Whole(benchmark::State& state, CallT call) {
  Gpu& gpu = Gpu::Get();
  call(gpu);
  gpu.Synchronize();
  for (auto _ : state) call(gpu);
}

void AllocateAndFree(Gpu&) {
  CUdeviceptr address;
  DRIVER(cuMemAlloc(&address, size_t{2} << 20));
  DRIVER(cuMemFree(address));
}

void CreateAndDestroy(Gpu&) {
  CUevent event;
  DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  DRIVER(cuEventDestroy(event));
}

void RegisterCallers() {
  const auto add = [](const char* name, auto call) {
    benchmark::RegisterBenchmark(name, [call](benchmark::State& state) { Caller(state, call); })->UseManualTime()->Iterations(100);
  };
  add("caller/current_context", [](Gpu&) {
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
  });
  add("caller/current_device", [](Gpu&) {
    CUdevice device;
    DRIVER(cuCtxGetDevice(&device));
  });
  add("caller/launch_3_arguments", [](Gpu& gpu) { gpu.LaunchThree(); });
  add("caller/launch_2048_bytes", [](Gpu& gpu) { gpu.LaunchMany(); });
  add("caller/event_record", [](Gpu& gpu) { DRIVER(cuEventRecord(gpu.event, gpu.stream)); });
  add("caller/stream_wait", [](Gpu& gpu) { DRIVER(cuStreamWaitEvent(gpu.stream, gpu.event, 0)); });
  add("caller/set_async", [](Gpu& gpu) { DRIVER(cuMemsetD8Async(gpu.memory, 0, 4, gpu.stream)); });
  add("caller/event_create_destroy", CreateAndDestroy);
  add("caller/copy_to_device_4_bytes", [](Gpu& gpu) { DRIVER(cuMemcpyHtoDAsync(gpu.memory, gpu.pinned, 4, gpu.stream)); });
}

void RegisterWholes() {
  const auto add = [](const char* name, auto call) {
    benchmark::RegisterBenchmark(name, [call](benchmark::State& state) { Whole(state, call); })->UseRealTime();
  };
  add("launch_synchronize", [](Gpu& gpu) {
    gpu.LaunchThree();
    gpu.Synchronize();
  });
  add("event_query_finished", [](Gpu& gpu) {
    if (cuEventQuery(gpu.event) != CUDA_SUCCESS) gpu.Synchronize();
  });
  add("record_and_poll", [](Gpu& gpu) {
    DRIVER(cuEventRecord(gpu.event, gpu.stream));
    while (cuEventQuery(gpu.event) == CUDA_ERROR_NOT_READY) {
    }
  });
  add("read_4_bytes", [](Gpu& gpu) {
    DRIVER(cuMemcpyDtoHAsync(gpu.pinned, gpu.memory, 4, gpu.stream));
    gpu.Synchronize();
  });
  add("allocate_free_2MiB", AllocateAndFree);
}

void RegisterCopies() {
  for (const size_t bytes : {size_t{4} << 10, size_t{1} << 20, Gpu::kBytes}) {
    for (const bool to_device : {true, false}) {
      for (const bool pinned : {true, false}) {
        const std::string name = std::string(to_device ? "to_device/" : "from_device/") + (pinned ? "pinned/" : "pageable/") +
                                 std::to_string(bytes >> 10) + "KiB";
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          static char* const ordinary = [] {
            char* memory = new char[Gpu::kBytes];
            Gpu::Fill(memory);
            return memory;
          }();
          char* const host = pinned ? Gpu::Get().pinned : ordinary;
          Whole(state, [=](Gpu& gpu) {
            if (to_device) {
              DRIVER(cuMemcpyHtoDAsync(gpu.memory, host, bytes, gpu.stream));
            } else {
              DRIVER(cuMemcpyDtoHAsync(host, gpu.memory, bytes, gpu.stream));
            }
            gpu.Synchronize();
          });
          state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
        })->UseRealTime();
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  RegisterCallers();
  RegisterWholes();
  RegisterCopies();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
