// Stream-ordered allocation: from the default pool and from pools of one's own, reused within a stream and across streams,
// counted, and given back.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "check.h"

__global__ void fill(int* values, int n, int base) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = base + i;
}
__global__ void add(const int* from, int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}

static size_t Attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  CHECK_CUDA(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

int main() {
  constexpr int kCount = 1 << 16;
  constexpr size_t kBytes = kCount * sizeof(int);
  cudaStream_t a, b;
  CHECK_CUDA(cudaStreamCreate(&a));
  CHECK_CUDA(cudaStreamCreate(&b));
  cudaEvent_t made, used;
  CHECK_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));

  cudaMemPool_t standard, current;
  CHECK_CUDA(cudaDeviceGetDefaultMemPool(&standard, 0));
  CHECK_CUDA(cudaDeviceGetMemPool(&current, 0));
  EXPECT_EQ(standard == current, true);

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool;
  CHECK_CUDA(cudaMemPoolCreate(&pool, &properties));
  uint64_t keep = UINT64_MAX;
  CHECK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReleaseThreshold) == keep, true);
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemCurrent), size_t{0});

  // Made in one stream, used in the other, freed in the first.
  int *values, *sums;
  CHECK_CUDA(cudaMallocFromPoolAsync(&values, kBytes, pool, a));
  fill<<<kCount / 256, 256, 0, a>>>(values, kCount, 100);
  CHECK_CUDA(cudaEventRecord(made, a));
  CHECK_CUDA(cudaStreamWaitEvent(b, made, 0));
  CHECK_CUDA(cudaMallocAsync(&sums, kBytes, b));
  CHECK_CUDA(cudaMemsetAsync(sums, 0, kBytes, b));
  add<<<kCount / 256, 256, 0, b>>>(values, sums, kCount);
  CHECK_CUDA(cudaEventRecord(used, b));
  CHECK_CUDA(cudaStreamWaitEvent(a, used, 0));
  CHECK_CUDA(cudaFreeAsync(values, a));
  std::vector<int> host(kCount);
  CHECK_CUDA(cudaMemcpyAsync(host.data(), sums, kBytes, cudaMemcpyDeviceToHost, b));
  CHECK_CUDA(cudaFreeAsync(sums, b));
  CHECK_CUDA(cudaStreamSynchronize(b));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(host[i], 100 + i);
  CHECK_CUDA(cudaStreamSynchronize(a));

  // Freed memory stays with the pool until it is trimmed.
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemCurrent), size_t{0});
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= kBytes, true);
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemHigh) >= kBytes, true);
  CHECK_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReservedMemCurrent), size_t{0});

  // Many small ones, in turns.
  for (int round = 0; round < 50; ++round) {
    int* small;
    CHECK_CUDA(cudaMallocFromPoolAsync(&small, 1000 + round * 64, pool, a));
    fill<<<1, 128, 0, a>>>(small, 128, round);
    CHECK_CUDA(cudaMemcpyAsync(host.data() + round, small + 5, sizeof(int), cudaMemcpyDeviceToHost, a));
    CHECK_CUDA(cudaFreeAsync(small, a));
  }
  CHECK_CUDA(cudaStreamSynchronize(a));
  for (int round = 0; round < 50; ++round) EXPECT_EQ(host[round], round + 5);

  CHECK_CUDA(cudaDeviceSetMemPool(0, pool));
  CHECK_CUDA(cudaMallocAsync(&values, kBytes, a));
  CHECK_CUDA(cudaStreamSynchronize(a));
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemCurrent) >= kBytes, true);
  cudaMemAccessFlags flags;
  cudaMemLocation here{cudaMemLocationTypeDevice, 0};
  CHECK_CUDA(cudaMemPoolGetAccess(&flags, pool, &here));
  EXPECT_EQ(static_cast<int>(flags), static_cast<int>(cudaMemAccessFlagsProtReadWrite));
  CHECK_CUDA(cudaFreeAsync(values, a));
  CHECK_CUDA(cudaStreamSynchronize(a));
  CHECK_CUDA(cudaDeviceSetMemPool(0, standard));
  CHECK_CUDA(cudaMemPoolDestroy(pool));
  std::printf("ok\n");
}
