// Kernels whose blocks wait for each other.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void grid_rounds(int* data, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const int n = grid.num_threads(), i = grid.thread_rank();
  for (int r = 0; r < rounds; ++r) {
    const int neighbour = data[(i + 1) % n];
    grid.sync();
    data[i] = neighbour + 1;
    grid.sync();
  }
}

// Each block waits for the one before it, as a single-pass scan does.
extern "C" __global__ void chain(volatile int* flags, int* order, int* next) {
  if (threadIdx.x == 0) {
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {
      }
    }
    order[blockIdx.x] = atomicAdd(next, 1);
    __threadfence();
    flags[blockIdx.x] = 1;
  }
}
