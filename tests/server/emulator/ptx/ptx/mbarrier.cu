// Barriers in shared memory: producers and consumers, parities, threads that leave, copies that arrive by themselves.
#include <cuda/barrier>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void pingpong(const int* in, int* out, int rounds) {
  __shared__ Barrier full, empty;
  __shared__ int stage[64];
  if (threadIdx.x == 0) {
    init(&full, 64 + 64);
    init(&empty, 64 + 64);
  }
  __syncthreads();
  if (threadIdx.x < 64) {  // fills
    for (int r = 0; r < rounds; ++r) {
      if (r > 0) empty.arrive_and_wait();
      stage[threadIdx.x] = in[r * 64 + threadIdx.x];
      (void)full.arrive();
    }
  } else {
    int sum = 0;
    for (int r = 0; r < rounds; ++r) {
      full.arrive_and_wait();
      sum += stage[(threadIdx.x + r) % 64];
      if (r + 1 < rounds) (void)empty.arrive();
    }
    out[threadIdx.x - 64] = sum;
  }
}
extern "C" __global__ void parity(int* out) {
  __shared__ Barrier bar;
  __shared__ int total;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    total = 0;
  }
  __syncthreads();
  bool phase = false;
  for (int r = 0; r < 4; ++r) {
    atomicAdd(&total, 1);
    (void)bar.arrive();
    bar.wait_parity(phase);
    phase = !phase;
    if (threadIdx.x == 0) out[r] = total;
    __syncthreads();
  }
  if (threadIdx.x % 2) {
    bar.arrive_and_drop();
    return;
  }
  bar.arrive_and_wait();
  bar.arrive_and_wait();  // without those that dropped
  if (threadIdx.x == 0) out[4] = 7;
}
extern "C" __global__ void copies(const int4* in, int* out, int n) {
  __shared__ Barrier bar;
  __shared__ int4 tile[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    cuda::memcpy_async(&tile[threadIdx.x], &in[i * 128 + threadIdx.x], cuda::aligned_size_t<16>(16), bar);
    bar.arrive_and_wait();
    const int4 v = tile[127 - threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
