// A kernel waits for a flag in pinned memory that the program sets later. Meanwhile no asynchronous call may wait, for the kernel
// least of all: the program would never come to set the flag. Bandwidth tools do this, to have their copies begin together.
// Other streams go on, and are waited for, while the kernel runs.
//
// usage: behind_kernel [MEBIBYTES of the large copies, 64] [first | beside | mapped | large | all] [SECONDS of a call, 1]
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMebibyte = size_t{1} << 20;
constexpr int kCopies = 16;
double call_seconds_max = 1;         // of an asynchronous call
constexpr double kSecondsHung = 8;   // of a call that waits for other work than the kernel's
constexpr double kSecondsDone = 90;  // until all is done, when the flag is set: emulated copies over a link take their time

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

__global__ void Wait(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void AddOne(unsigned char* values, size_t count) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) values[i] += 1;
}

// Ends the program when a call does not return, and says which.
class Watchdog {
 public:
  static Watchdog& Get() {
    static Watchdog* const watchdog = new Watchdog;
    return *watchdog;
  }
  void Begin(const char* where, const char* what, double seconds_max) {
    where_ = where;
    what_ = what;
    seconds_max_ = seconds_max;
    begun_ns_ = Now();
  }
  void End() { begun_ns_ = 0; }

 private:
  Watchdog() {
    std::thread([this] { Run(); }).detach();
  }
  static int64_t Now() { return Clock::now().time_since_epoch().count(); }
  void Run() {
    for (;;) {
      usleep(100'000);
      const int64_t begun_ns = begun_ns_;
      if (begun_ns == 0 || static_cast<double>(Now() - begun_ns) < seconds_max_ * 1e9) continue;
      std::fprintf(stderr, "%s: %s does not return\n", where_.load(), what_.load());
      _exit(1);
    }
  }
  std::atomic<const char*> where_{""}, what_{""};
  std::atomic<int64_t> begun_ns_{0};
  std::atomic<double> seconds_max_{0};
};

struct Flag {
  volatile int* value = nullptr;
  Flag() { CHECK_CUDA(cudaHostAlloc(const_cast<int**>(&value), sizeof(int), cudaHostAllocPortable)); }
};

int slow_calls = 0;

// Enqueues the kernel, and sets the flag when it goes. Calls that are made meanwhile have a bound.
class Behind {
 public:
  Behind(const char* name, Flag& flag, cudaStream_t stream) : name_(name), flag_(flag) {
    *flag_.value = 0;
    Wait<<<1, 1, 0, stream>>>(flag_.value);
    CHECK_CUDA(cudaGetLastError());
  }
  ~Behind() {
    *flag_.value = 1;
    Watchdog::Get().Begin(name_, "cudaDeviceSynchronize, when the flag was set,", kSecondsDone);
    CHECK_CUDA(cudaDeviceSynchronize());
    Watchdog::Get().End();
  }
  // A call that returns at once.
  template <typename Call>
  void operator()(const char* what, const Call& call) const {
    Bounded(what, call_seconds_max, call);
  }
  // A call that waits for work of other streams than the kernel's.
  template <typename Call>
  void Waits(const char* what, const Call& call) const {
    Bounded(what, kSecondsHung, call);
  }

 private:
  template <typename Call>
  void Bounded(const char* what, double seconds_max, const Call& call) const {
    Watchdog::Get().Begin(name_, what, kSecondsHung);
    const auto begin = Clock::now();
    const int result = static_cast<int>(call());
    const double seconds = SecondsSince(begin);
    Watchdog::Get().End();
    if (result != 0) {
      std::fprintf(stderr, "%s: %s returned %d\n", name_, what, result);
      _exit(1);
    }
    if (seconds <= seconds_max) return;
    std::fprintf(stderr, "%s: %s took %.3f s\n", name_, what, seconds);
    ++slow_calls;
  }

  const char* const name_;
  Flag& flag_;
};

// Page-locked memory of either kind.
struct HostMemory {
  unsigned char* data = nullptr;
  const size_t bytes;
  const bool registered;
  HostMemory(size_t size, bool is_registered) : bytes(size), registered(is_registered) {
    if (registered) {
      void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      data = static_cast<unsigned char*>(pages);
      CHECK_CUDA(cudaHostRegister(data, bytes, cudaHostRegisterDefault));
    } else {
      CHECK_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
    }
  }
  ~HostMemory() {
    if (registered) {
      cudaHostUnregister(data);
      munmap(data, bytes);
    } else {
      cudaFreeHost(data);
    }
  }
};

void Fill(unsigned char* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 4096 + seed);
}

cudaStream_t NewStream() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// As a bandwidth tool: copies behind the kernel, in one stream and in two more that an event ties to it.
void LargeCopies(const char* name, Flag& flag, size_t bytes, bool registered) {
  const cudaStream_t streams[3] = {NewStream(), NewStream(), NewStream()};
  cudaEvent_t begun, ended[3];
  CHECK_CUDA(cudaEventCreate(&begun));
  for (cudaEvent_t& event : ended) CHECK_CUDA(cudaEventCreate(&event));
  constexpr size_t kPooled = 5 * kMebibyte;
  HostMemory up(bytes, registered), down(bytes, registered), down_too(bytes, registered), pooled_down(kPooled, registered);
  Fill(up.data, bytes, 3);
  unsigned char *to, *from;
  CHECK_CUDA(cudaMalloc(&to, bytes));
  CHECK_CUDA(cudaMalloc(&from, bytes));
  CHECK_CUDA(cudaMemset(from, 9, bytes));
  CHECK_CUDA(cudaDeviceSynchronize());
  {
    Behind behind(name, flag, streams[0]);
    behind("event", [&] { return cudaEventRecord(begun, streams[0]); });
    behind("wait for event", [&] { return cudaStreamWaitEvent(streams[1], begun); });
    behind("wait for event", [&] { return cudaStreamWaitEvent(streams[2], begun); });
    for (int i = 0; i < kCopies; ++i) {
      behind("copy to the device", [&] { return cudaMemcpyAsync(to, up.data, bytes, cudaMemcpyHostToDevice, streams[0]); });
    }
    for (int i = 0; i < kCopies; ++i) {
      behind("copy from the device", [&] { return cudaMemcpyAsync(down.data, from, bytes, cudaMemcpyDeviceToHost, streams[1]); });
    }
    behind("one more copy", [&] { return cudaMemcpyAsync(down_too.data, from, bytes, cudaMemcpyDeviceToHost, streams[2]); });
    // The driver forgets such memory when the call is made that frees it in stream order.
    unsigned char* pooled = nullptr;
    behind("allocation", [&] { return cudaMallocAsync(&pooled, kPooled, streams[2]); });
    behind("set of the allocation", [&] { return cudaMemsetAsync(pooled, 8, kPooled, streams[2]); });
    behind("copy from the allocation",
           [&] { return cudaMemcpyAsync(pooled_down.data, pooled, kPooled, cudaMemcpyDeviceToHost, streams[2]); });
    behind("free", [&] { return cudaFreeAsync(pooled, streams[2]); });
    for (int i = 0; i < 3; ++i) behind("event", [&] { return cudaEventRecord(ended[i], streams[i]); });
    behind("query", [&] { return cudaEventQuery(ended[0]) == cudaErrorNotReady ? cudaSuccess : cudaErrorUnknown; });
    behind("query of a stream",
           [&] { return cudaStreamQuery(streams[2]) == cudaErrorNotReady ? cudaSuccess : cudaErrorUnknown; });
  }
  for (size_t i = 0; i < bytes; i += 511) EXPECT_EQ(down.data[i], 9);
  for (size_t i = 0; i < bytes; i += 511) EXPECT_EQ(down_too.data[i], 9);
  for (size_t i = 0; i < kPooled; i += 511) EXPECT_EQ(pooled_down.data[i], 8);
  CHECK_CUDA(cudaMemcpy(down.data, to, bytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::memcmp(up.data, down.data, bytes), 0);
  CHECK_CUDA(cudaFree(to));
  CHECK_CUDA(cudaFree(from));
  for (const cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
}

// Each asynchronous entry point, used for the first time behind the kernel.
void UseAll(const Behind& behind, cudaStream_t busy, cudaStream_t in, const HostMemory& host, const HostMemory& result,
            unsigned char* device, unsigned char* more, cudaGraphExec_t graph, int* called) {
  std::vector<unsigned char> pageable(60000, 5);
  for (const size_t bytes : {size_t{4}, size_t{60000}, size_t{300000}, host.bytes}) {
    behind("copy to the device", [&] { return cudaMemcpyAsync(device, host.data, bytes, cudaMemcpyHostToDevice, in); });
    // More than that waits natively.
    behind("copy of ordinary memory",
           [&] { return cudaMemcpyAsync(more, pageable.data(), std::min(bytes, pageable.size()), cudaMemcpyHostToDevice, in); });
    behind("copy on the device", [&] { return cudaMemcpyAsync(more, device, bytes, cudaMemcpyDeviceToDevice, in); });
    behind("copy from the device", [&] { return cudaMemcpyAsync(result.data, more, bytes, cudaMemcpyDeviceToHost, in); });
    behind("set", [&] { return cudaMemsetAsync(device, 0, bytes, in); });
  }
  behind("2D copy to the device",
         [&] { return cudaMemcpy2DAsync(device, 5000, host.data, 5000, 4000, 300, cudaMemcpyHostToDevice, in); });
  behind("2D copy from the device",
         [&] { return cudaMemcpy2DAsync(result.data, 5000, device, 5000, 4000, 300, cudaMemcpyDeviceToHost, in); });
  behind("2D set", [&] { return cudaMemset2DAsync(device, 5000, 3, 4000, 300, in); });
  void* const to[] = {device, more};
  const void* const from[] = {host.data, host.data};
  const size_t sizes[] = {host.bytes, host.bytes};
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  behind("batch of copies", [&] { return cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, in); });
  behind("copy to the device", [&] { return cudaMemcpyAsync(device, host.data, host.bytes, cudaMemcpyHostToDevice, in); });
  behind("launch", [&] { return AddOne<<<1, 128, 0, in>>>(device, host.bytes), cudaGetLastError(); });
  cudaEvent_t event;
  behind("new event", [&] { return cudaEventCreate(&event); });
  behind("event", [&] { return cudaEventRecord(event, in); });
  behind("wait for event", [&] { return cudaStreamWaitEvent(in, event); });
  behind("destruction of the event", [&] { return cudaEventDestroy(event); });
  behind("host function", [&] {
    return cudaLaunchHostFunc(
        in, [](void* count) { ++*static_cast<int*>(count); }, called);
  });
  behind("query", [&] { return cudaStreamQuery(busy) == cudaErrorNotReady ? cudaSuccess : cudaErrorUnknown; });
  void* block = nullptr;
  behind("allocation", [&] { return cudaMallocAsync(&block, host.bytes, in); });
  behind("set of the allocation", [&] { return cudaMemsetAsync(block, 1, host.bytes, in); });
  behind("free", [&] { return cudaFreeAsync(block, in); });
  if (!result.registered) behind("set of host memory", [&] { return cudaMemsetAsync(result.data, 4, host.bytes, in); });
  behind("copy of the result", [&] { return cudaMemcpyAsync(result.data, device, host.bytes, cudaMemcpyDeviceToHost, in); });
  behind("launch of a graph", [&] { return cudaGraphLaunch(graph, in); });
}

cudaGraphExec_t CopyAndAdd(cudaStream_t stream, const HostMemory& from, unsigned char* to) {
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemcpyAsync(to, from.data, from.bytes, cudaMemcpyHostToDevice, stream));
  AddOne<<<1, 128, 0, stream>>>(to, from.bytes);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&instance, graph, 0));
  CHECK_CUDA(cudaGraphDestroy(graph));
  return instance;
}

void FirstUses(const char* name, Flag& flag, bool registered) {
  constexpr size_t kBytes = 3 * kMebibyte;
  const cudaStream_t streams[2] = {NewStream(), NewStream()};  // of the kernel, and another
  HostMemory host(kBytes, registered), results[2] = {{kBytes, registered}, {kBytes, registered}};
  Fill(host.data, kBytes, 1);
  unsigned char *device[2], *more[2];
  cudaGraphExec_t graphs[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cudaMalloc(&device[i], kBytes));
    CHECK_CUDA(cudaMalloc(&more[i], kBytes));
    graphs[i] = CopyAndAdd(streams[i], host, more[i]);
  }
  unsigned char* fresh_memory;
  CHECK_CUDA(cudaMalloc(&fresh_memory, 64));
  int called[2] = {};
  CHECK_CUDA(cudaDeviceSynchronize());
  {
    Behind behind(name, flag, streams[0]);
    for (const int i : {1, 0}) {
      UseAll(behind, streams[0], streams[i], host, results[i], device[i], more[i], graphs[i], &called[i]);
    }
    cudaStream_t fresh;
    behind("stream", [&] { return cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking); });
    behind("set in a new stream", [&] { return cudaMemsetAsync(fresh_memory, 0, 64, fresh); });
    behind("copy in a new stream", [&] { return cudaMemcpyAsync(fresh_memory, host.data, 64, cudaMemcpyHostToDevice, fresh); });
    behind("destruction of the stream", [&] { return cudaStreamDestroy(fresh); });
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(called[i], 1);
    for (size_t k = 0; k < kBytes; ++k) EXPECT_EQ(results[i].data[k], static_cast<unsigned char>(host.data[k] + 1));
    CHECK_CUDA(cudaMemcpy(results[i].data, more[i], kBytes, cudaMemcpyDeviceToHost));
    for (size_t k = 0; k < kBytes; ++k) EXPECT_EQ(results[i].data[k], static_cast<unsigned char>(host.data[k] + 1));
    CHECK_CUDA(cudaGraphExecDestroy(graphs[i]));
    CHECK_CUDA(cudaFree(device[i]));
    CHECK_CUDA(cudaFree(more[i]));
  }
  CHECK_CUDA(cudaFree(fresh_memory));
}

// Copies in another stream come to their end while the kernel runs.
void Beside(const char* name, Flag& flag, size_t bytes, bool registered) {
  const cudaStream_t stream = NewStream(), other = NewStream();
  HostMemory host(bytes, registered), result(bytes, registered);
  Fill(host.data, bytes, 7);
  unsigned char* device;
  CHECK_CUDA(cudaMalloc(&device, bytes));
  {
    Behind behind(name, flag, stream);
    for (int i = 0; i < 2; ++i) {
      behind("copy to the device", [&] { return cudaMemcpyAsync(device, host.data, bytes, cudaMemcpyHostToDevice, other); });
      behind("launch", [&] { return AddOne<<<1, 128, 0, other>>>(device, bytes), cudaGetLastError(); });
      behind("copy from the device", [&] { return cudaMemcpyAsync(result.data, device, bytes, cudaMemcpyDeviceToHost, other); });
      behind.Waits("cudaStreamSynchronize of the other stream", [&] { return cudaStreamSynchronize(other); });
      for (size_t k = 0; k < bytes; ++k) EXPECT_EQ(result.data[k], static_cast<unsigned char>(host.data[k] + 1));
    }
  }
  CHECK_CUDA(cudaFree(device));
}

// Memory that kernels use is made known to the device while the kernel waits, and the flag still gets there.
void MappedBehind(const char* name, Flag& flag, size_t bytes, bool registered) {
  const cudaStream_t stream = NewStream(), other = NewStream();
  HostMemory asked(bytes, registered), seen(bytes, false);
  Fill(asked.data, bytes, 2);
  Fill(seen.data, bytes, 4);
  {
    Behind behind(name, flag, stream);
    unsigned char* device = nullptr;
    behind("device pointer", [&] { return cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), asked.data, 0); });
  }
  {
    Behind behind(name, flag, stream);
    behind("launch", [&] { return AddOne<<<1, 128, 0, other>>>(seen.data, bytes), cudaGetLastError(); });
  }
  for (size_t i = 0; i < bytes; ++i) EXPECT_EQ(seen.data[i], static_cast<unsigned char>(i * 7 + i / 4096 + 5));
  // A small copy is still to write it, and the kernel behind the copy finds what it wrote.
  constexpr size_t kSmall = 1000;
  HostMemory written(bytes, false);
  unsigned char* from;
  CHECK_CUDA(cudaMalloc(&from, kSmall));
  CHECK_CUDA(cudaMemset(from, 30, kSmall));
  CHECK_CUDA(cudaDeviceSynchronize());
  {
    Behind behind(name, flag, stream);
    behind("small copy", [&] { return cudaMemcpyAsync(written.data, from, kSmall, cudaMemcpyDeviceToHost, stream); });
    behind("launch", [&] { return AddOne<<<1, 128, 0, stream>>>(written.data, kSmall), cudaGetLastError(); });
    behind("small copy", [&] { return cudaMemcpyAsync(written.data + kSmall, from, kSmall, cudaMemcpyDeviceToHost, stream); });
    behind("launch", [&] { return AddOne<<<1, 128, 0, stream>>>(written.data, 2 * kSmall), cudaGetLastError(); });
  }
  for (size_t i = 0; i < 2 * kSmall; ++i) EXPECT_EQ(written.data[i], i < kSmall ? 32 : 31);
  CHECK_CUDA(cudaFree(from));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t large = (argc > 1 ? std::stoul(argv[1]) : 64) * kMebibyte;
  const auto wanted = [&](const char* part) {
    return argc < 3 || std::strcmp(argv[2], "all") == 0 || std::strcmp(argv[2], part) == 0;
  };
  if (argc > 3) call_seconds_max = std::stod(argv[3]);
  CHECK_CUDA(cudaFree(nullptr));
  Flag flag;
  // Loaded, and their pool made: natively both wait for running kernels.
  AddOne<<<1, 1>>>(nullptr, 0);
  *flag.value = 1;
  Wait<<<1, 1>>>(flag.value);
  void* block = nullptr;
  CHECK_CUDA(cudaMallocAsync(&block, 512, nullptr));
  CHECK_CUDA(cudaFreeAsync(block, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  for (const bool registered : {false, true}) {
    const std::string kind = registered ? "registered memory: " : "pinned memory: ";
    if (wanted("first")) FirstUses((kind + "first uses").c_str(), flag, registered);
    if (wanted("beside")) Beside((kind + "beside the kernel").c_str(), flag, 5 * kMebibyte, registered);
    if (wanted("mapped")) MappedBehind((kind + "mapped").c_str(), flag, kMebibyte, registered);
    if (wanted("large")) LargeCopies((kind + "large copies").c_str(), flag, large, registered);
  }
  if (slow_calls != 0) return 1;
  std::printf("ok\n");
}
