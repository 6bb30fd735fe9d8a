// Copies until a call fails, for tests that end one of the two processes in the middle: prints "copying", then what failed.
#include <chrono>
#include <vector>

#include "check.h"

int main(int argc, char** argv) {
  const bool pinned = argc > 1 && argv[1][0] == 'p';
  const size_t bytes = size_t{64} << 20;
  std::vector<char> ordinary(pinned ? 0 : bytes);
  char *host = ordinary.data(), *device;
  if (pinned) CHECK_CUDA(cudaMallocHost(&host, bytes));
  CHECK_CUDA(cudaMalloc(&device, bytes));
  CHECK_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  std::puts("copying");
  std::fflush(stdout);
  cudaError_t result = cudaSuccess;
  while (result == cudaSuccess) {
    result = cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
    if (result == cudaSuccess) result = cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
  }
  std::printf("ended with %d\n", static_cast<int>(result));
  return 0;
}
