// Streams and events: order within a stream, order through events, the legacy stream, timing, queries.
#include <vector>

#include "check.h"

__global__ void AddOne(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

__global__ void Scale(int* data, int n, int factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

int main() {
  const int n = 5000;
  int* device;
  int* host;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&host, n * sizeof(int)));
  cudaStream_t a, b;
  CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreate(&b));
  cudaEvent_t first, second;
  CHECK_CUDA(cudaEventCreate(&first));
  CHECK_CUDA(cudaEventCreate(&second));

  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < n; ++i) host[i] = i + round;
    CHECK_CUDA(cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyHostToDevice, a));
    AddOne<<<20, 256, 0, a>>>(device, n);
    CHECK_CUDA(cudaEventRecord(first, a));
    CHECK_CUDA(cudaStreamWaitEvent(b, first, 0));
    Scale<<<20, 256, 0, b>>>(device, n, 3);
    // The legacy stream waits for the blocking stream b and holds back what follows there.
    AddOne<<<20, 256>>>(device, n);
    Scale<<<20, 256, 0, b>>>(device, n, 2);
    CHECK_CUDA(cudaEventRecord(second, b));
    CHECK_CUDA(cudaStreamWaitEvent(a, second, 0));
    CHECK_CUDA(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, a));
    CHECK_CUDA(cudaStreamSynchronize(a));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], ((i + round + 1) * 3 + 1) * 2);
  }
  float ms = -1;
  CHECK_CUDA(cudaEventElapsedTime(&ms, first, second));
  if (!(ms >= 0 && ms < 10000)) return std::fprintf(stderr, "elapsed time %f ms\n", ms), 1;
  CHECK_CUDA(cudaEventRecord(first, a));
  while (cudaEventQuery(first) == cudaErrorNotReady) {
  }
  CHECK_CUDA(cudaEventQuery(first));
  CHECK_CUDA(cudaStreamQuery(a));
  int priority_low, priority_high;
  CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&priority_low, &priority_high));
  cudaStream_t urgent;
  CHECK_CUDA(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, priority_high));
  int priority;
  CHECK_CUDA(cudaStreamGetPriority(urgent, &priority));
  EXPECT_EQ(priority, priority_high);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (cudaStream_t stream : {a, b, urgent}) CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaEventDestroy(first));
  CHECK_CUDA(cudaEventDestroy(second));
  CHECK_CUDA(cudaFreeHost(host));
  CHECK_CUDA(cudaFree(device));
  std::puts("ok");
  return 0;
}
