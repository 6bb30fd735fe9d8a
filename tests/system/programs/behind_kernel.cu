// A kernel waits for a flag in pinned memory that the program sets later. Meanwhile no asynchronous call may wait, for the kernel
// least of all: the program would never come to set the flag. Bandwidth tools do this, to have their copies begin together.
//
// usage: behind_kernel [MEBIBYTES of the large copies, 64]
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "check.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMebibyte = size_t{1} << 20;
constexpr int kCopies = 16;
constexpr double kSecondsMax = 1;

__global__ void Wait(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void AddOne(unsigned char* values, size_t count) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) values[i] += 1;
}

struct Flag {
  volatile int* value = nullptr;
  Flag() { CHECK_CUDA(cudaHostAlloc(const_cast<int**>(&value), sizeof(int), cudaHostAllocPortable)); }
};

// Enqueues the kernel, then what `work` is, with a bound on each call; sets the flag, and waits.
class Behind {
 public:
  Behind(const char* name, Flag& flag, cudaStream_t stream) : name_(name), flag_(flag) {
    *flag_.value = 0;
    Wait<<<1, 1, 0, stream>>>(flag_.value);
    CHECK_CUDA(cudaGetLastError());
  }
  ~Behind() {
    *flag_.value = 1;
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  template <typename Call>
  void operator()(const char* what, const Call& call) const {
    const auto begin = Clock::now();
    const auto result = call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (seconds > kSecondsMax || result != 0) {
      std::fprintf(stderr, "%s: %s took %.3f s and returned %d\n", name_, what, seconds, static_cast<int>(result));
      std::exit(1);
    }
  }

 private:
  const char* const name_;
  Flag& flag_;
};

// Page-locked memory of either kind, `second` of it written by the device.
struct HostMemory {
  unsigned char* data = nullptr;
  std::vector<unsigned char> own;
  HostMemory(size_t bytes, bool registered) {
    if (registered) {
      own.resize(bytes);
      data = own.data();
      CHECK_CUDA(cudaHostRegister(data, bytes, cudaHostRegisterDefault));
    } else {
      CHECK_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
    }
  }
  ~HostMemory() { own.empty() ? cudaFreeHost(data) : cudaHostUnregister(data); }
};

void Fill(unsigned char* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 4096 + seed);
}

// As a bandwidth tool: large copies behind the kernel, in one stream and in two that an event ties together.
void LargeCopies(Flag& flag, size_t bytes, bool registered) {
  cudaStream_t first, second;
  cudaEvent_t begun, ended[2];
  CHECK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreate(&begun));
  for (cudaEvent_t& event : ended) CHECK_CUDA(cudaEventCreate(&event));
  HostMemory up(bytes, registered), down(bytes, registered);
  Fill(up.data, bytes, 3);
  unsigned char *to, *from;
  CHECK_CUDA(cudaMalloc(&to, bytes));
  CHECK_CUDA(cudaMalloc(&from, bytes));
  CHECK_CUDA(cudaMemset(from, 9, bytes));
  CHECK_CUDA(cudaDeviceSynchronize());
  {
    Behind behind(registered ? "large copies of registered memory" : "large copies of pinned memory", flag, first);
    behind("event", [&] { return cudaEventRecord(begun, first); });
    behind("wait for event", [&] { return cudaStreamWaitEvent(second, begun); });
    for (int i = 0; i < kCopies; ++i) {
      behind("copy to the device", [&] { return cudaMemcpyAsync(to, up.data, bytes, cudaMemcpyHostToDevice, first); });
    }
    for (int i = 0; i < kCopies; ++i) {
      behind("copy from the device", [&] { return cudaMemcpyAsync(down.data, from, bytes, cudaMemcpyDeviceToHost, second); });
    }
    behind("event", [&] { return cudaEventRecord(ended[0], first); });
    behind("event", [&] { return cudaEventRecord(ended[1], second); });
  }
  for (size_t i = 0; i < bytes; i += 511) EXPECT_EQ(down.data[i], 9);
  CHECK_CUDA(cudaMemcpy(down.data, to, bytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::memcmp(up.data, down.data, bytes), 0);
  CHECK_CUDA(cudaFree(to));
  CHECK_CUDA(cudaFree(from));
}

// Each asynchronous entry point, used for the first time behind the kernel: in a stream of its own and in the kernel's.
void FirstUses(Flag& flag, bool registered) {
  constexpr size_t kBytes = 3 * kMebibyte;
  struct Lane {
    cudaStream_t stream;
    unsigned char *device, *more;
    HostMemory result;
    cudaEvent_t event;
    int called = 0;
    explicit Lane(bool registered) : result(kBytes, registered) {
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      CHECK_CUDA(cudaEventCreate(&event));
      CHECK_CUDA(cudaMalloc(&device, kBytes));
      CHECK_CUDA(cudaMalloc(&more, kBytes));
    }
    ~Lane() {
      CHECK_CUDA(cudaFree(device));
      CHECK_CUDA(cudaFree(more));
    }
  };
  HostMemory host(kBytes, registered);
  Fill(host.data, kBytes, 1);
  Lane other(registered), behind_it(registered);
  unsigned char* fresh_memory;
  CHECK_CUDA(cudaMalloc(&fresh_memory, kBytes));
  void* pooled = nullptr;
  CHECK_CUDA(cudaMallocAsync(&pooled, 512, other.stream));  // the pool itself is made by the first
  CHECK_CUDA(cudaDeviceSynchronize());
  {
    Behind behind(registered ? "first uses, registered memory" : "first uses, pinned memory", flag, behind_it.stream);
    for (Lane* lane : {&other, &behind_it}) {
      unsigned char* const device = lane->device;
      unsigned char* const result = lane->result.data;
      const cudaStream_t in = lane->stream;
      for (const size_t bytes : {size_t{4}, size_t{60000}, size_t{300000}, kBytes}) {
        behind("copy to the device", [&] { return cudaMemcpyAsync(device, host.data, bytes, cudaMemcpyHostToDevice, in); });
        behind("copy on the device", [&] { return cudaMemcpyAsync(lane->more, device, bytes, cudaMemcpyDeviceToDevice, in); });
        behind("copy from the device", [&] { return cudaMemcpyAsync(result, lane->more, bytes, cudaMemcpyDeviceToHost, in); });
        behind("set", [&] { return cudaMemsetAsync(device, 0, bytes, in); });
      }
      behind("2D copy to the device",
             [&] { return cudaMemcpy2DAsync(device, 5000, host.data, 5000, 4000, 300, cudaMemcpyHostToDevice, in); });
      behind("2D copy from the device",
             [&] { return cudaMemcpy2DAsync(result, 5000, device, 5000, 4000, 300, cudaMemcpyDeviceToHost, in); });
      behind("copy back", [&] { return cudaMemcpyAsync(device, host.data, kBytes, cudaMemcpyHostToDevice, in); });
      behind("launch", [&] { return AddOne<<<1, 128, 0, in>>>(device, kBytes), cudaGetLastError(); });
      behind("event", [&] { return cudaEventRecord(lane->event, in); });
      behind("wait for event", [&] { return cudaStreamWaitEvent(in, lane->event); });
      behind("host function",
             [&] { return cudaLaunchHostFunc(in, [](void* called) { ++*static_cast<int*>(called); }, &lane->called); });
      behind("query", [&] { return cudaStreamQuery(behind_it.stream) == cudaErrorNotReady ? cudaSuccess : cudaErrorUnknown; });
      void* block = nullptr;
      behind("allocation", [&] { return cudaMallocAsync(&block, kBytes, in); });
      behind("free", [&] { return cudaFreeAsync(block, in); });
      behind("copy of the result", [&] { return cudaMemcpyAsync(result, device, kBytes, cudaMemcpyDeviceToHost, in); });
    }
    cudaStream_t fresh;
    behind("stream", [&] { return cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking); });
    behind("copy in a new stream",
           [&] { return cudaMemcpyAsync(fresh_memory, host.data, kBytes, cudaMemcpyHostToDevice, fresh); });
  }
  for (const Lane* lane : {&other, &behind_it}) {
    EXPECT_EQ(lane->called, 1);
    for (size_t i = 0; i < kBytes; ++i) EXPECT_EQ(lane->result.data[i], static_cast<unsigned char>(host.data[i] + 1));
  }
  CHECK_CUDA(cudaFree(fresh_memory));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t large = (argc > 1 ? std::stoul(argv[1]) : 64) * kMebibyte;
  CHECK_CUDA(cudaFree(nullptr));
  Flag flag;
  AddOne<<<1, 1>>>(nullptr, 0);  // loaded: loading waits for running kernels, natively too
  *flag.value = 1;
  Wait<<<1, 1>>>(flag.value);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (const bool registered : {false, true}) {
    FirstUses(flag, registered);
    LargeCopies(flag, large, registered);
  }
  std::printf("ok\n");
}
