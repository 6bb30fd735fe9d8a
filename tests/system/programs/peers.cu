// Two devices: copies between them, a kernel that reads the other's memory, and what is refused without access. With one
// device the program says so and ends.
#include <cuda_runtime.h>

#include <vector>

#include "check.h"

__global__ void twice(const int* from, int* to) { to[threadIdx.x] = 2 * from[threadIdx.x]; }

int main() {
  int devices = 0, can = 0;
  CHECK_CUDA(cudaGetDeviceCount(&devices));
  if (devices >= 2) CHECK_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) {
    std::printf("no two devices that reach each other\nok\n");
    return 0;
  }
  constexpr int kCount = 256;
  constexpr size_t kBytes = kCount * sizeof(int);
  std::vector<int> host(kCount), back(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = 7 * i;
  int *here, *there;
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMalloc(&there, kBytes));
  CHECK_CUDA(cudaMemcpy(there, host.data(), kBytes, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaMalloc(&here, kBytes));

  CHECK_CUDA(cudaMemcpyPeer(here, 0, there, 1, kBytes));
  CHECK_CUDA(cudaMemcpy(back.data(), here, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back == host, true);

  EXPECT_EQ(static_cast<int>(cudaDeviceDisablePeerAccess(1)), static_cast<int>(cudaErrorPeerAccessNotEnabled));
  CHECK_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(static_cast<int>(cudaDeviceEnablePeerAccess(1, 0)), static_cast<int>(cudaErrorPeerAccessAlreadyEnabled));
  cudaGetLastError();
  twice<<<1, kCount>>>(there, here);
  CHECK_CUDA(cudaMemcpy(back.data(), here, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(back[i], 14 * i);
  // Memory made after access was enabled is reachable as well.
  int* later;
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMalloc(&later, kBytes));
  CHECK_CUDA(cudaMemset(later, 1, kBytes));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaSetDevice(0));
  twice<<<1, kCount>>>(later, here);
  CHECK_CUDA(cudaMemcpy(back.data(), here, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[5], 0x02020202);
  cudaPointerAttributes attributes;
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, there));
  EXPECT_EQ(attributes.device, 1);
  CHECK_CUDA(cudaDeviceDisablePeerAccess(1));
  CHECK_CUDA(cudaFree(here));
  CHECK_CUDA(cudaFree(there));
  CHECK_CUDA(cudaFree(later));
  std::printf("ok\n");
}
