// Kernels of the emulated driver's tests. basic.ptx is what `nvcc -ptx -arch=sm_75 basic.cu` wrote; commit both together.
#include <cassert>
#include <cstdio>

extern "C" {
__device__ int counter = 5;
__constant__ int factor = 3;

__global__ void add_one(int* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1;
}
__global__ void scale(const int* from, int* to, int count, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i] * by;
}
__global__ void store(int* to, int value) { *to = value; }
// Runs until the host or another stream writes a value other than 0.
__global__ void wait_for(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void use_globals(int* to) { *to = counter * factor; }
__global__ void print_number(int value) { printf("number %d\n", value); }
__global__ void trap_now() { asm volatile("trap;"); }
__global__ void assert_now(int value) { assert(value == 0); }
__global__ void shared_sum(int* to) {
  extern __shared__ int values[];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += values[i];
    *to = sum;
  }
}
}
