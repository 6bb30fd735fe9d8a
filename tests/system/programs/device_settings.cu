// What programs set before they launch: limits of the device, caches, priorities of memory in the L2 cache; and kernels that
// need it: a deep stack, a large heap with virtual functions, parameters of 32 KB, a buffer of parameters.
#include <cuda.h>

#include <new>
#include <string>
#include <vector>

#include "check.h"

namespace {

__device__ __noinline__ int Deep(int depth, volatile int* unused) {
  volatile int local[64];
  for (int i = 0; i < 64; ++i) local[i] = depth + i;
  if (depth == 0) return local[5] + unused[0];
  return Deep(depth - 1, unused) + local[1] - depth;
}
__global__ void CallDeep(int depth, int* result) { result[threadIdx.x + 1] = Deep(depth, result); }

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual int Area() const = 0;
};
struct Square : Shape {
  __device__ explicit Square(int side) : side(side) {}
  __device__ int Area() const override { return side * side; }
  int side;
};
struct Strip : Shape {
  __device__ explicit Strip(int n) : n(n), cells(new int[n]) {
    for (int i = 0; i < n; ++i) cells[i] = 1;
  }
  __device__ ~Strip() override { delete[] cells; }
  __device__ int Area() const override {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += cells[i];
    return sum;
  }
  int n;
  int* cells;
};
__global__ void Make(Shape** shapes) {
  const int i = threadIdx.x;
  shapes[i] = i % 2 == 0 ? static_cast<Shape*>(new Square(i)) : static_cast<Shape*>(new Strip(i * 1000));
}
__global__ void Measure(Shape** shapes, int* areas) { areas[threadIdx.x] = shapes[threadIdx.x]->Area(); }
__global__ void Delete(Shape** shapes) { delete shapes[threadIdx.x]; }

constexpr int kNumbers = 8000;
struct Large {
  int numbers[kNumbers];
};
__global__ void Sum(const __grid_constant__ Large large, int* result) {
  int sum = 0;
  for (int i = threadIdx.x; i < kNumbers; i += blockDim.x) sum += large.numbers[i];
  atomicAdd(result, sum);
}

__global__ void AddTo(int* values, int n, char amount) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += amount;
}

void Limits() {
  size_t bytes = 0;
  CHECK_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 24 << 10));
  CHECK_CUDA(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
  EXPECT_EQ(bytes >= 24 << 10, true);
  CHECK_CUDA(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
  CHECK_CUDA(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
  EXPECT_EQ(bytes >= 32 << 20, true);
  CHECK_CUDA(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
  CHECK_CUDA(cudaFuncSetCacheConfig(CallDeep, cudaFuncCachePreferL1));
  int* result;
  std::vector<int> host(33);
  CHECK_CUDA(cudaMalloc(&result, host.size() * sizeof(int)));
  CHECK_CUDA(cudaMemset(result, 0, host.size() * sizeof(int)));
  CallDeep<<<1, 32>>>(50, result);
  CHECK_CUDA(cudaMemcpy(host.data(), result, host.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 1; i <= 32; ++i) EXPECT_EQ(host[i], 5 + 50);
  CHECK_CUDA(cudaFree(result));
}

void Heap() {
  const int n = 64;
  Shape** shapes;
  int *areas, host[n];
  CHECK_CUDA(cudaMalloc(&shapes, n * sizeof(Shape*)));
  CHECK_CUDA(cudaMalloc(&areas, n * sizeof(int)));
  for (int round = 0; round < 3; ++round) {  // too much for the heap if nothing were freed
    Make<<<1, n>>>(shapes);
    Measure<<<1, n>>>(shapes, areas);
    Delete<<<1, n>>>(shapes);
    CHECK_CUDA(cudaMemcpy(host, areas, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], i % 2 == 0 ? i * i : i * 1000);
  }
  CHECK_CUDA(cudaFree(shapes));
  CHECK_CUDA(cudaFree(areas));
}

void LargeParameters() {
  static Large large;
  int *result, host = 0;
  CHECK_CUDA(cudaMalloc(&result, sizeof(int)));
  CHECK_CUDA(cudaMemset(result, 0, sizeof(int)));
  for (int round = 1; round <= 4; ++round) {
    for (int& number : large.numbers) number = round;
    Sum<<<1, 128>>>(large, result);
  }
  CHECK_CUDA(cudaMemcpy(&host, result, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT_EQ(host, kNumbers * (1 + 2 + 3 + 4));
  CHECK_CUDA(cudaFree(result));
}

void ParameterBuffer() {
  const int n = 500;
  int* values;
  CHECK_CUDA(cudaMalloc(&values, n * sizeof(int)));
  CHECK_CUDA(cudaMemset(values, 0, n * sizeof(int)));
  cudaFunction_t function;
  CHECK_CUDA(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&AddTo)));
  struct {
    int* values;
    int n;
    char amount;
  } parameters{values, n, 7};
  size_t bytes = offsetof(decltype(parameters), amount) + 1;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CHECK_DRIVER(cuLaunchKernel(reinterpret_cast<CUfunction>(function), 4, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  parameters.amount = 100;  // it was read
  std::vector<int> host(n);
  CHECK_CUDA(cudaMemcpy(host.data(), values, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : host) EXPECT_EQ(value, 7);
  CHECK_CUDA(cudaFree(values));
}

void PersistingCache() {
  cudaDeviceProp properties;
  CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT_EQ(properties.persistingL2CacheMaxSize > 0 && properties.accessPolicyMaxWindowSize > 0, true);
  CHECK_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, properties.persistingL2CacheMaxSize));
  size_t bytes = 0;
  CHECK_CUDA(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize));
  EXPECT_EQ(bytes > 0, true);
  const int n = 10000;
  int* values;
  CHECK_CUDA(cudaMalloc(&values, n * sizeof(int)));
  cudaStream_t stream, other;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaStreamCreate(&other));
  CHECK_CUDA(cudaMemsetAsync(values, 0, n * sizeof(int), stream));
  cudaStreamAttrValue wanted{}, got{};
  wanted.accessPolicyWindow.base_ptr = values;
  wanted.accessPolicyWindow.num_bytes = n * sizeof(int);
  wanted.accessPolicyWindow.hitRatio = 1;
  wanted.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  wanted.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  CHECK_CUDA(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &wanted));
  CHECK_CUDA(cudaStreamCopyAttributes(other, stream));
  CHECK_CUDA(cudaStreamGetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &got));
  EXPECT_EQ(got.accessPolicyWindow.base_ptr == values && got.accessPolicyWindow.num_bytes == n * sizeof(int), true);
  for (int round = 0; round < 5; ++round) AddTo<<<(n + 255) / 256, 256, 0, stream>>>(values, n, 3);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaCtxResetPersistingL2Cache());
  std::vector<int> host(n);
  CHECK_CUDA(cudaMemcpy(host.data(), values, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : host) EXPECT_EQ(value, 15);
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaStreamDestroy(other));
  CHECK_CUDA(cudaFree(values));
}

}  // namespace

int main() {
  Limits();
  Heap();
  LargeParameters();
  ParameterBuffer();
  PersistingCache();
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
}
