// Static objects free device memory after main and exit handlers call in, while a thread of the program waits for the device
// again and again: the program ends with 0. What the calls return is the driver's affair, but each of them returns.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

namespace {

std::atomic<bool> waits{false}, heard{false};

bool AtExit(cudaError_t result) { return result == cudaSuccess || result == cudaErrorCudartUnloading; }

struct Owner {
  explicit Owner(const char* last_words) : last_words_(last_words) {}
  ~Owner() {
    const cudaError_t result = cudaFree(memory);
    if (!AtExit(result)) std::printf("cudaFree: %s\n", cudaGetErrorName(result));
    if (last_words_ != nullptr) std::puts(last_words_);
  }
  void* memory = nullptr;

 private:
  const char* last_words_;
};
Owner early("ok");

// Registered before the runtime's own handlers, so it runs after the driver's. The thread is given time to call once more:
// natively the driver takes longer than that to shut down.
void Last() {
  const cudaError_t result = cudaDeviceSynchronize();
  if (!AtExit(result)) std::printf("cudaDeviceSynchronize: %s\n", cudaGetErrorName(result));
  for (int i = 0; i < 1000 && !heard.load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

__global__ void Wait(long long ns) {
  for (long long i = 0; i < ns / 1000; ++i) __nanosleep(1000);
}

}  // namespace

int main() {
  std::atexit(Last);
  CHECK_CUDA(cudaMalloc(&early.memory, 1 << 20));
  static Owner late(nullptr);
  CHECK_CUDA(cudaMalloc(&late.memory, 1 << 20));
  std::thread([] {
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    Wait<<<1, 1, 0, stream>>>(50'000'000);
    waits.store(true);
    while (cudaStreamSynchronize(stream) == cudaSuccess) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    heard.store(true);
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }).detach();
  while (!waits.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Wait<<<1, 1>>>(30'000'000);
  return 0;
}
