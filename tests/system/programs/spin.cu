// A kernel that never ends by itself: for tests that kill its client or its worker.
#include <cstring>

#include "check.h"

__global__ void Spin(volatile int* stop) {
  while (*stop == 0) {
  }
}

int main() {
  int* stop;
  CHECK_CUDA(cudaMalloc(&stop, sizeof(int)));
  CHECK_CUDA(cudaMemset(stop, 0, sizeof(int)));
  CHECK_CUDA(cudaDeviceSynchronize());
  Spin<<<1, 1>>>(stop);
  std::puts("spinning");
  std::fflush(stdout);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("ended with %d\n", static_cast<int>(error));
  return error == cudaSuccess ? 1 : 0;
}
