// Compiled in several ways by the commands in README.md; image_test.cc reads the results.
struct Pair {
  char tag;
  double value;
};
__device__ int counter = 3;
__constant__ float weights[5] = {1, 2, 3, 4, 5};
extern "C" __global__ void scale(float* data, int n, Pair pair) {
  __shared__ float tile[64];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) data[threadIdx.x] = tile[63 - threadIdx.x] * weights[n] + pair.value;
}
extern "C" __global__ void __launch_bounds__(128) count(int by) { atomicAdd(&counter, by); }
