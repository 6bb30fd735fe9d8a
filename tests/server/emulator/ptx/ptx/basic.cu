// Kernels of basic_kernels_test.cc. Each is small and exercises one part of the interpreter.
#include <cuda_fp16.h>

#include <cstdio>

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void reduce_shared(const float* in, float* out, int n) {
  extern __shared__ float partial[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  partial[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

extern "C" __global__ void reduce_shuffle(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? in[i] : 0;
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, v);
}

extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / 16; ++t) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + t * 16 + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void softmax_rows(const float* in, float* out, int columns) {
  const float* row = in + blockIdx.x * columns;
  __shared__ float scratch[32];
  float m = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += 32) m = fmaxf(m, row[i]);
  for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
  float s = 0;
  for (int i = threadIdx.x; i < columns; i += 32) s += expf(row[i] - m);
  scratch[threadIdx.x] = s;
  __syncwarp();
  if (threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < 32; ++i) total += scratch[i];
    scratch[0] = total;
  }
  __syncwarp();
  for (int i = threadIdx.x; i < columns; i += 32) out[blockIdx.x * columns + i] = expf(row[i] - m) / scratch[0];
}

extern "C" __global__ void gelu(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = in[i];
    out[i] = 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
}

__constant__ double coefficients[4] = {1.5, -2.25, 0.125, 3.0};
__device__ double scale_factor = 2.0;
__device__ int counters[4];
__device__ int* counter_pointer = &counters[2];
extern "C" __global__ void polynomial(const double* x, double* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double r = 0;
  for (int k = 3; k >= 0; --k) r = r * x[i] + coefficients[k];
  y[i] = r * scale_factor + sqrt(fabs(x[i])) / 3.0;
  atomicAdd(counter_pointer, 1);
}

extern "C" __global__ void collatz(const unsigned* in, int* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long v = in[i];
  int count = 0;
  while (v != 1) {
    if (v & 1) {
      v = 3 * v + 1;
    } else {
      v >>= 1;
    }
    if (++count > 500) break;
  }
  steps[i] = count;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 13); }

typedef float (*Function)(float, float);
__device__ __noinline__ float add_them(float a, float b) { return a + b; }
__device__ __noinline__ float multiply_them(float a, float b) { return a * b; }
__device__ __noinline__ float subtract_them(float a, float b) { return a - b; }
__device__ Function functions[3] = {add_them, multiply_them, subtract_them};
extern "C" __global__ void function_pointers(const float* a, float* out) {
  int i = threadIdx.x;
  out[i] = functions[i % 3](a[i], 2.0f) + functions[1](a[i], 0.5f);
}

extern "C" __global__ void switch_table(const int* in, int* out) {
  int v = in[threadIdx.x];
  switch (v) {
    case 0: v = 17; break;
    case 1: v = out[0] + 5; break;
    case 2: v = v * 31 ^ 0x55; break;
    case 3: v = __popc(v) + 100; break;
    case 4: v = -9; break;
    case 5: v = __clz(v); break;
    case 6: v = v * v * v; break;
    case 7: v = ~v; break;
    default: v = 1000 + v;
  }
  out[threadIdx.x + 1] = v;
}

extern "C" __global__ void print_things(int n, const char* unused) {
  if (threadIdx.x < n)
    printf("thread %2d of %u: %8.3f %e %s %c %lld 0x%04x %%\n", (int)threadIdx.x, blockDim.x, threadIdx.x * 0.5, 1234.5, "text",
           'q', -5000000000ll, 0xbeef);
  if (threadIdx.x == 0) printf("no arguments\n");
}

extern "C" __global__ void warp_votes(const int* in, unsigned* out) {
  int i = threadIdx.x;
  unsigned ballot = __ballot_sync(0xffffffffu, in[i] > 3);
  int any = __any_sync(0xffffffffu, in[i] == 7), all = __all_sync(0xffffffffu, in[i] >= 0);
  unsigned same = __match_any_sync(0xffffffffu, in[i]);
  int pred;
  unsigned every = __match_all_sync(0xffffffffu, in[i] >= 0, &pred);
  unsigned least = __reduce_min_sync(0xffffffffu, (unsigned)in[i]), sum = __reduce_add_sync(0xffffffffu, (unsigned)in[i]);
  unsigned up = __shfl_up_sync(0xffffffffu, in[i], 3, 16), indexed = __shfl_sync(0xffffffffu, in[i], 5, 8);
  unsigned odd = 0;
  if (i & 1) odd = __ballot_sync(0xaaaaaaaau, in[i] > 3) ^ __activemask();
  out += i * 10;
  out[0] = ballot, out[1] = any, out[2] = all, out[3] = same, out[4] = every + pred, out[5] = least, out[6] = sum, out[7] = up,
  out[8] = indexed, out[9] = odd;
}

extern "C" __global__ void divide64(const long long* a, const long long* b, long long* out) {
  int i = threadIdx.x;
  out[4 * i] = a[i] / b[i];
  out[4 * i + 1] = a[i] % b[i];
  out[4 * i + 2] = (unsigned long long)a[i] / (unsigned long long)b[i];
  out[4 * i + 3] = __mul64hi(a[i], b[i]);
}

struct Big {
  char tag;
  double weight;
  int values[5];
  short s[3];
};
extern "C" __global__ void struct_parameter(Big big, int* out, Big* copy) {
  out[threadIdx.x] = big.values[threadIdx.x % 5] + big.tag + (int)big.weight + big.s[threadIdx.x % 3];
  if (threadIdx.x == 0) *copy = big;
}

extern "C" __global__ void local_array(const int* order, int* out) {
  int scratch[32];
  for (int i = 0; i < 32; ++i) scratch[i] = i * i + threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 8; ++i) {
    scratch[order[i]] += 7;
    sum = sum * 3 + scratch[order[(i + threadIdx.x) & 7]];
  }
  out[threadIdx.x] = sum;
}

template <class T, int N>
__device__ T power(T x) {
  T r = 1;
  for (int i = 0; i < N; ++i) r *= x;
  return r;
}
template <class T>
__device__ void templated(const T* in, T* out) {
  out[threadIdx.x] = power<T, 3>(in[threadIdx.x]) + power<T, 2>(in[threadIdx.x]);
}
extern "C" __global__ void templates(const int* a, int* b, const double* c, double* d) {
  templated(a, b);
  templated(c, d);
}

__device__ int lock_word;
extern "C" __global__ void spin_lock(int* shared_counter) {
  for (bool done = false; !done;) {
    if (atomicCAS(&lock_word, 0, 1) == 0) {
      *(volatile int*)shared_counter = *(volatile int*)shared_counter + 1;
      __threadfence();
      atomicExch(&lock_word, 0);
      done = true;
    }
  }
}
// The winner leaves the loop while the others of its warp still spin.
extern "C" __global__ void spin_lock_outside(int* shared_counter) {
  while (atomicCAS(&lock_word, 0, 1) != 0) {
  }
  *(volatile int*)shared_counter = *(volatile int*)shared_counter + 1;
  __threadfence();
  atomicExch(&lock_word, 0);
}

extern "C" __global__ void barrier_in_branches(int* out) {
  __shared__ int values[64];
  if (threadIdx.x < 16) {
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
  } else if (threadIdx.x < 40) {
    values[threadIdx.x] = 2 * threadIdx.x;
    __syncthreads();
  } else {
    return;
  }
  out[threadIdx.x] = values[39 - threadIdx.x];
}

extern "C" __global__ void barrier_counts(int* out) {
  int p = threadIdx.x % 3 == 0;
  out[3 * threadIdx.x] = __syncthreads_count(p);
  out[3 * threadIdx.x + 1] = __syncthreads_and(threadIdx.x < 1000);
  out[3 * threadIdx.x + 2] = __syncthreads_or(threadIdx.x == 77);
}

extern "C" __global__ void heap(int** out) {
  int* p = (int*)malloc(16);
  p[1] = threadIdx.x;
  if (threadIdx.x & 1) {
    free(p);
    p = nullptr;
  }
  out[threadIdx.x] = p;
}

extern "C" __global__ void wild_store(int* p) { p[threadIdx.x] = 1; }
extern "C" __global__ void misaligned(char* p) { *(int*)(p + 1) = 1; }
extern "C" __global__ void traps() { __trap(); }
extern "C" __global__ void endless(volatile int* p) {
  while (*p == 0) {
  }
}
