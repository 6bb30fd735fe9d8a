// A thread is in a call when main returns, and comes back from it while static objects are destroyed: behind the runtime's own
// handlers, and before the last of the program's. It gets what its call found, and one that begins then is told of the end.
//
// usage: exit_return [CALL]: without one all, each in a process of its own
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

namespace {

constexpr const char* kCalls[] = {"stream", "device", "copy", "twice"};
constexpr size_t kBytes = 1 << 20;
constexpr int kNever = -1;

std::atomic<bool> waits{false};
std::atomic<int> heard{kNever};
int expected = cudaSuccess;

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Made before the runtime is used, so it is destroyed behind what the runtime has registered.
struct Last {
  ~Last() {
    for (int i = 0; i < 10'000 && heard.load() == kNever; ++i) Sleep(1);
    if (heard.load() == expected) return;
    std::fprintf(stderr, "the thread heard %d, not %d\n", heard.load(), expected);
    _exit(1);
  }
} last;

__global__ void Wait(long long ns) {
  for (long long i = 0; i < ns / 1000; ++i) __nanosleep(1000);
}

cudaError_t Call(const char* call, cudaStream_t stream, const char* device) {
  static char host[kBytes];
  if (std::strcmp(call, "device") == 0) return cudaDeviceSynchronize();
  if (std::strcmp(call, "copy") == 0) return cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream);
  const cudaError_t result = cudaStreamSynchronize(stream);
  if (std::strcmp(call, "twice") != 0 || result != cudaSuccess) return result;
  return cudaStreamSynchronize(stream);
}

int Leave(const char* call) {
  if (std::strcmp(call, "twice") == 0) expected = cudaErrorCudartUnloading;
  CHECK_CUDA(cudaFree(nullptr));
  std::thread([call] {
    cudaStream_t stream;
    char* device;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaMalloc(&device, kBytes));
    Wait<<<1, 1, 0, stream>>>(150'000'000);
    waits.store(true);
    heard.store(Call(call, stream, device));
    for (;;) Sleep(1000);
  }).detach();
  while (!waits.load()) Sleep(1);
  Sleep(5);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) return Leave(words[1]);
  heard.store(cudaSuccess);
  for (const char* call : kCalls) {
    std::fflush(stdout);
    const int status = std::system((std::string(words[0]) + " " + call).c_str());
    if (status != 0) {
      std::fprintf(stderr, "%s: status %d\n", call, status);
      return 1;
    }
  }
  std::puts("ok");
  return 0;
}
