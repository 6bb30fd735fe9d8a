// Built with -rdc=true from two files: device code that is linked across them.
#include "check.h"

extern __device__ int scale;
__device__ int Combine(int a, int b);

__global__ void Apply(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = Combine(data[i], scale);
}

int main() {
  const int n = 500;
  int host[n];
  for (int i = 0; i < n; ++i) host[i] = i;
  int* device;
  CHECK_CUDA(cudaMalloc(&device, sizeof(host)));
  CHECK_CUDA(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
  Apply<<<4, 128>>>(device, n);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], i * 3 + 42);
  std::puts("ok");
  return 0;
}
