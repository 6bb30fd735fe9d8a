// A device that was reset is as new: all memory is back at the next look, and everything works again.
#include <cuda.h>

#include "check.h"

__device__ int total = 3;

__global__ void AddUp(int* value) {
  ++*value;
  total += *value;
}

static size_t Free() {
  size_t free = 0, all = 0;
  CHECK_CUDA(cudaMemGetInfo(&free, &all));
  return free;
}

// Uses a little of everything, and frees nothing.
static void Use(int round) {
  int *value, *managed, *pinned, sum = 0;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK_CUDA(cudaMalloc(&value, sizeof(int)));
  CHECK_CUDA(cudaMallocManaged(&managed, sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&pinned, sizeof(int)));
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaEventCreate(&event));
  *managed = round;
  CHECK_CUDA(cudaMemcpyAsync(value, managed, sizeof(int), cudaMemcpyDefault, stream));
  AddUp<<<1, 1, 0, stream>>>(value);
  CHECK_CUDA(cudaMemcpyAsync(pinned, value, sizeof(int), cudaMemcpyDefault, stream));
  CHECK_CUDA(cudaEventRecord(event, stream));
  CHECK_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(*pinned, round + 1);
  EXPECT_EQ(*managed, round);
  CHECK_CUDA(cudaMemcpyFromSymbol(&sum, total, sizeof(int)));
  EXPECT_EQ(sum, 3 + round + 1);
}

static int Active() {
  unsigned flags = 0;
  int active = -1;
  CHECK_DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
  return active;
}

int main() {
  Use(0);
  const size_t before = Free();
  for (int round = 1; round < 5; ++round) {
    void* memory;
    CHECK_CUDA(cudaMalloc(&memory, size_t{200} << 20));
    for (int i = 0; i < 3000; ++i) CHECK_CUDA(cudaMalloc(&memory, 5000));
    for (int i = 0; i < 3000; ++i) CHECK_CUDA(cudaMallocManaged(&memory, 50));
    EXPECT_EQ(Free() + (size_t{200} << 20) <= before, true);
    CHECK_CUDA(cudaDeviceReset());
    if (round == 2) CHECK_CUDA(cudaDeviceReset());
    EXPECT_EQ(Active(), 0);
    Use(round);
    EXPECT_EQ(Active(), 1);
    EXPECT_EQ(Free() + (size_t{64} << 20) >= before, true);
  }
  CHECK_DRIVER(cuDevicePrimaryCtxReset(0));
  EXPECT_EQ(Active(), 0);
  Use(9);
  EXPECT_EQ(Free() + (size_t{64} << 20) >= before, true);
  std::printf("ok\n");
}
