// Launches with attributes: cooperative, in clusters, with priorities, programmatic dependence; and what the occupancy
// calculator says of the kernels. Clusters are left out where the device has none.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

// Every block waits for all others between the two steps.
__global__ void two_steps(int* steps, int* sums) {
  const cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0) steps[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
  grid.sync();
  int sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += steps[i];
  atomicAdd(&sums[blockIdx.x], sum);
}

__global__ void produce(int* values, int by) {
  values[threadIdx.x] = static_cast<int>(threadIdx.x) * by;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__global__ void consume(const int* values, int* out) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  out[threadIdx.x] = values[threadIdx.x] + 1;
}

#ifdef CLUSTERS
// Each block writes into its neighbour's shared memory.
__global__ void neighbours(int* out) {
  __shared__ int from_neighbour;
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  if (threadIdx.x == 0) {
    int* there = cluster.map_shared_rank(&from_neighbour, (cluster.block_rank() + 1) % cluster.num_blocks());
    *there = static_cast<int>(blockIdx.x);
  }
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = from_neighbour;
}
#endif

int main() {
  int *steps, *sums;
  constexpr int kThreads = 64;
  int per_multiprocessor = 0, multiprocessors = 0;
  CHECK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, two_steps, kThreads, 0));
  CHECK_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(per_multiprocessor > 0, true);
  int grid_least = 0, block_best = 0;
  CHECK_CUDA(cudaOccupancyMaxPotentialBlockSize(&grid_least, &block_best, two_steps));
  EXPECT_EQ(grid_least > 0 && block_best >= 32, true);
  size_t dynamic_bytes = 0;
  CHECK_CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic_bytes, two_steps, 1, kThreads));
  std::printf("blocks per multiprocessor %d, best block %d, shared %zu\n", per_multiprocessor, block_best, dynamic_bytes);

  const int blocks = multiprocessors < 16 ? multiprocessors : 16;
  CHECK_CUDA(cudaMalloc(&steps, 1024 * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&sums, 1024 * sizeof(int)));
  CHECK_CUDA(cudaMemset(sums, 0, 1024 * sizeof(int)));
  cudaStream_t stream;
  int least = 0, greatest = 0, got = 0;
  CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  CHECK_CUDA(cudaStreamGetPriority(stream, &got));
  EXPECT_EQ(got, greatest);
  CHECK_CUDA(cudaStreamSynchronize(nullptr));

  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributePriority;
  attributes[1].val.priority = greatest;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  CHECK_CUDA(cudaLaunchKernelEx(&config, two_steps, steps, sums));
  std::vector<int> host(1024);
  CHECK_CUDA(cudaMemcpyAsync(host.data(), sums, 1024 * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < blocks; ++i) EXPECT_EQ(host[i], blocks * (blocks + 1) / 2);
  // More blocks than the device holds at once cannot wait for each other.
  config.gridDim = dim3(static_cast<unsigned>(per_multiprocessor * multiprocessors + 1));
  EXPECT_EQ(static_cast<int>(cudaLaunchKernelEx(&config, two_steps, steps, sums)),
            static_cast<int>(cudaErrorCooperativeLaunchTooLarge));
  cudaGetLastError();

  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  config.gridDim = dim3(1);
  config.numAttrs = 1;
  for (int round = 1; round <= 20; ++round) {
    produce<<<1, kThreads, 0, stream>>>(steps, round);
    CHECK_CUDA(cudaLaunchKernelEx(&config, consume, static_cast<const int*>(steps), sums));
  }
  CHECK_CUDA(cudaMemcpyAsync(host.data(), sums, kThreads * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < kThreads; ++i) EXPECT_EQ(host[i], 20 * i + 1);

#ifdef CLUSTERS
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = 4;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  config.gridDim = dim3(16);
  int clusters = 0;
  CHECK_CUDA(cudaOccupancyMaxActiveClusters(&clusters, neighbours, &config));
  EXPECT_EQ(clusters > 0, true);
  CHECK_CUDA(cudaLaunchKernelEx(&config, neighbours, sums));
  CHECK_CUDA(cudaMemcpyAsync(host.data(), sums, 16 * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(host[i], i / 4 * 4 + (i % 4 + 3) % 4);
#endif
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(steps));
  CHECK_CUDA(cudaFree(sums));
  std::printf("ok\n");
}
