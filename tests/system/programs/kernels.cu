// What ordinary kernels do: shared-memory reductions, a tiled matrix product, atomics, warp intrinsics, constant and global
// symbols, function pointers, recursion, local arrays, double and half precision.
#include <cuda_fp16.h>

#include <cmath>
#include <vector>

#include "check.h"

__constant__ float coefficients[4];
__device__ int counter;
__device__ double table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

__global__ void ReduceShared(const float* in, float* out, int n) {
  extern __shared__ float partial[];
  const int tid = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + tid; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  partial[tid] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) partial[tid] += partial[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = partial[0];
}

__global__ void ReduceWarp(const int* in, int* out, int n) {
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

template <int kTile>
__global__ void MatMul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[kTile][kTile], bs[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / kTile; ++t) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t * kTile + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t * kTile + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

__global__ void Histogram(const unsigned char* in, unsigned* bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
}

__global__ void Votes(unsigned* out) {
  const bool odd = threadIdx.x % 2 == 1;
  const unsigned ballot = __ballot_sync(0xffffffffu, odd);
  const unsigned match = __match_any_sync(0xffffffffu, threadIdx.x / 4);
  const unsigned reduced = __reduce_add_sync(0xffffffffu, threadIdx.x);
  out[threadIdx.x] = ballot ^ match ^ reduced ^ (__any_sync(0xffffffffu, threadIdx.x == 31) ? 1u : 0u);
}

__device__ int Fibonacci(int n) { return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2); }
__device__ float Square(float x) { return x * x; }
__device__ float Cube(float x) { return x * x * x; }
typedef float (*Function)(float);
__device__ Function functions[2] = {Square, Cube};

__global__ void Mixed(float* floats, double* doubles, __half* halves, int* ints, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float local[8];
  for (int k = 0; k < 8; ++k) local[k] = static_cast<float>((i + k) % 7);
  floats[i] = functions[i % 2](local[i % 8]) + coefficients[i % 4];
  doubles[i] = sqrt(static_cast<double>(i)) * table[i % 8];
  halves[i] = __hadd(__float2half(static_cast<float>(i % 100)), __float2half(0.5f));
  ints[i] = Fibonacci(i % 12);
  if (i % 3 == 0) atomicAdd(&counter, 1);
}

template <typename T>
T* Upload(const std::vector<T>& values) {
  T* device;
  CHECK_CUDA(cudaMalloc(&device, values.size() * sizeof(T)));
  CHECK_CUDA(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

template <typename T>
std::vector<T> Download(const T* device, size_t n) {
  std::vector<T> values(n);
  CHECK_CUDA(cudaMemcpy(values.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

static void Reductions() {
  const int n = 70000;
  std::vector<float> floats(n);
  std::vector<int> ints(n);
  long long expected = 0;
  for (int i = 0; i < n; ++i) {
    ints[i] = i % 13;
    floats[i] = static_cast<float>(ints[i]);
    expected += ints[i];
  }
  float* in = Upload(floats);
  float* out = Upload(std::vector<float>(32));
  ReduceShared<<<32, 256, 256 * sizeof(float)>>>(in, out, n);
  CHECK_CUDA(cudaGetLastError());
  double sum = 0;
  for (float part : Download(out, 32)) sum += part;
  EXPECT_EQ(static_cast<long long>(sum), expected);
  int* in_ints = Upload(ints);
  int* total = Upload(std::vector<int>(1));
  ReduceWarp<<<16, 128>>>(in_ints, total, n);
  EXPECT_EQ(Download(total, 1)[0], static_cast<int>(expected));
}

static void MatrixProduct() {
  const int n = 96;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 11) - 5;
    b[i] = static_cast<float>(i % 7) - 3;
  }
  float* c = Upload(std::vector<float>(n * n));
  MatMul<16><<<dim3(n / 16, n / 16), dim3(16, 16)>>>(Upload(a), Upload(b), c, n);
  const std::vector<float> result = Download(c, n * n);
  for (int row = 0; row < n; ++row) {
    for (int col = 0; col < n; ++col) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
      EXPECT_EQ(result[row * n + col], sum);  // small integers: exact
    }
  }
}

static void AtomicsAndVotes() {
  const int n = 50000;
  std::vector<unsigned char> in(n);
  std::vector<unsigned> expected(256);
  for (int i = 0; i < n; ++i) ++expected[in[i] = static_cast<unsigned char>(i * i)];
  unsigned* bins = Upload(std::vector<unsigned>(256));
  Histogram<<<20, 128>>>(Upload(in), bins, n);
  const std::vector<unsigned> counted = Download(bins, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(counted[i], expected[i]);
  unsigned* votes = Upload(std::vector<unsigned>(32));
  Votes<<<1, 32>>>(votes);
  const std::vector<unsigned> voted = Download(votes, 32);
  for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(voted[lane], 0xAAAAAAAAu ^ (0xFu << (lane / 4 * 4)) ^ 496u ^ 1u);
}

static void SymbolsAndTypes() {
  const int n = 1000;
  const float values[4] = {0.5f, 1.5f, 2.5f, 3.5f};
  const int zero = 0;
  CHECK_CUDA(cudaMemcpyToSymbol(coefficients, values, sizeof(values)));
  CHECK_CUDA(cudaMemcpyToSymbol(counter, &zero, sizeof(zero)));
  float* floats = Upload(std::vector<float>(n));
  double* doubles = Upload(std::vector<double>(n));
  __half* halves = Upload(std::vector<__half>(n));
  int* ints = Upload(std::vector<int>(n));
  Mixed<<<8, 128>>>(floats, doubles, halves, ints, n);
  CHECK_CUDA(cudaGetLastError());
  const auto f = Download(floats, n);
  const auto d = Download(doubles, n);
  const auto h = Download(halves, n);
  const auto k = Download(ints, n);
  const int fibonacci[12] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (int i = 0; i < n; ++i) {
    const float x = static_cast<float>((i + i % 8) % 7);
    EXPECT_EQ(f[i], (i % 2 == 0 ? x * x : x * x * x) + values[i % 4]);
    EXPECT_EQ(d[i], std::sqrt(static_cast<double>(i)) * (i % 8 + 1));
    EXPECT_EQ(__half2float(h[i]), static_cast<float>(i % 100) + 0.5f);
    EXPECT_EQ(k[i], fibonacci[i % 12]);
  }
  int counted;
  CHECK_CUDA(cudaMemcpyFromSymbol(&counted, counter, sizeof(counted)));
  EXPECT_EQ(counted, 334);
}

int main() {
  Reductions();
  MatrixProduct();
  AtomicsAndVotes();
  SymbolsAndTypes();
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
  return 0;
}
