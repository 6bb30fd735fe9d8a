// No lost error: each mistake gives the code that the driver gives, at the call or at the next one that may return it.
#include <cuda.h>

#include "check.h"

__global__ void Nothing() {}
__global__ void Trap() { asm volatile("trap;"); }

int main() {
  int* device;
  CHECK_CUDA(cudaMalloc(&device, 1024));
  // cudart 13 reports the driver's "invalid value" here or, where it looks first, "invalid configuration".
  Nothing<<<1, 2048>>>();
  cudaError_t error = cudaGetLastError();
  EXPECT_EQ(error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration, true);
  Nothing<<<0, 1>>>();
  error = cudaGetLastError();
  EXPECT_EQ(error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration, true);
  Nothing<<<1, 1, 1 << 20>>>();
  EXPECT_EQ(static_cast<int>(cudaGetLastError()), static_cast<int>(cudaErrorInvalidValue));
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(static_cast<int>(cudaMemcpy(device, device + 1, 4096, cudaMemcpyDeviceToDevice)),
            static_cast<int>(cudaErrorInvalidValue));
  EXPECT_EQ(static_cast<int>(cudaFree(reinterpret_cast<void*>(0x1234500))), static_cast<int>(cudaErrorInvalidValue));
  void* huge;
  EXPECT_EQ(static_cast<int>(cudaMalloc(&huge, size_t{1} << 45)), static_cast<int>(cudaErrorMemoryAllocation));
  cudaGetLastError();
  EXPECT_EQ(static_cast<int>(cudaEventRecord(nullptr)), static_cast<int>(cudaErrorInvalidResourceHandle));
  cudaGetLastError();
  cudaEvent_t a, b;
  CHECK_CUDA(cudaEventCreate(&a));
  CHECK_CUDA(cudaEventCreate(&b));
  float ms;
  EXPECT_EQ(static_cast<int>(cudaEventElapsedTime(&ms, a, b)), static_cast<int>(cudaErrorInvalidResourceHandle));
  cudaGetLastError();
  CHECK_CUDA(cudaDeviceSynchronize());
  Trap<<<1, 1>>>();
  EXPECT_EQ(static_cast<int>(cudaDeviceSynchronize()), static_cast<int>(cudaErrorLaunchFailure));
  // Sticky: everything that follows in this context says so too.
  EXPECT_EQ(static_cast<int>(cudaMalloc(&huge, 16)), static_cast<int>(cudaErrorLaunchFailure));
  EXPECT_EQ(static_cast<int>(cudaDeviceSynchronize()), static_cast<int>(cudaErrorLaunchFailure));
  std::puts("ok");
  return 0;
}
