// A managed variable is one for the program and all its devices. Devices of two servers cannot share it: the kernels that use
// it run on those of one, and are refused on the other's.
#include <cuda_runtime.h>

#include "check.h"

__managed__ int shared = 4;

__global__ void add(int value) { shared += value; }

int main() {
  CHECK_CUDA(cudaSetDevice(0));
  shared = 7;
  add<<<1, 1>>>(3);
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(shared, 10);
  CHECK_CUDA(cudaSetDevice(1));
  add<<<1, 1>>>(5);
  const cudaError_t refused = cudaGetLastError();
  EXPECT_EQ(refused != cudaSuccess, true);
  cudaDeviceSynchronize();
  EXPECT_EQ(shared, 10);
  CHECK_CUDA(cudaSetDevice(0));
  add<<<1, 1>>>(1);
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(shared, 11);
  std::printf("%s\nok\n", cudaGetErrorName(refused));
}
