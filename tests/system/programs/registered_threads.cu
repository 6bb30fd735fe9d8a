// Threads copy registered memory at the same time, each in its own default stream: none gets the bytes of another. Built with
// the default stream of each thread its own.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

constexpr int kThreads = 4;
constexpr int kRounds = 40;
constexpr size_t kBytes = size_t{1} << 20;

static void Copy(int thread) {
  std::vector<uint32_t> from(kBytes / 4), to(kBytes / 4);
  CHECK_CUDA(cudaHostRegister(from.data(), kBytes, 0));
  CHECK_CUDA(cudaHostRegister(to.data(), kBytes, 0));
  void* device;
  CHECK_CUDA(cudaMalloc(&device, kBytes));
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t value = thread * 1000 + round;
    for (uint32_t& word : from) word = value;
    CHECK_CUDA(cudaMemcpyAsync(device, from.data(), kBytes, cudaMemcpyHostToDevice, 0));
    CHECK_CUDA(cudaMemcpyAsync(to.data(), device, kBytes, cudaMemcpyDeviceToHost, 0));
    CHECK_CUDA(cudaStreamSynchronize(0));
    size_t wrong = 0;
    for (const uint32_t word : to) wrong += word != value;
    EXPECT_EQ(wrong, size_t{0});
  }
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaHostUnregister(from.data()));
  CHECK_CUDA(cudaHostUnregister(to.data()));
}

int main() {
  CHECK_CUDA(cudaFree(nullptr));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(Copy, i);
  for (std::thread& thread : threads) thread.join();
  std::puts("ok");
  return 0;
}
