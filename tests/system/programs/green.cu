// Two green contexts that divide the device: kernels run in each, ordered by events of whole contexts, on memory and code of
// the primary context.
#include <cuda.h>

#include <vector>

#include "check.h"

__global__ void Fill(int* out, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = value;
}
__global__ void Add(int* out, const int* a, const int* b, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] += a[i] + b[i];
}

int main() {
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaFree(nullptr));
  CUdevResource all;
  CHECK_DRIVER(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CUdevResource halves[2], rest;
  unsigned groups = 2;
  CHECK_DRIVER(cuDevSmResourceSplitByCount(halves, &groups, &all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
                                           all.sm.smCount / 2 / 2 * 2));
  EXPECT_EQ(groups, 2u);
  EXPECT_EQ(halves[0].sm.smCount + halves[1].sm.smCount + rest.sm.smCount, all.sm.smCount);

  const int n = 1 << 16;
  int* data[3];
  for (int*& p : data) {
    CHECK_CUDA(cudaMalloc(&p, n * sizeof(int)));
    CHECK_CUDA(cudaMemset(p, 0, n * sizeof(int)));
  }
  CHECK_CUDA(cudaDeviceSynchronize());  // green streams do not wait for the default stream
  CUgreenCtx green[2];
  CUstream stream[2];
  CUevent done[2];
  for (int i = 0; i < 2; ++i) {
    CUdevResourceDesc descriptor;
    CHECK_DRIVER(cuDevResourceGenerateDesc(&descriptor, &halves[i], 1));
    CHECK_DRIVER(cuGreenCtxCreate(&green[i], descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK_DRIVER(cuGreenCtxStreamCreate(&stream[i], green[i], CU_STREAM_NON_BLOCKING, 0));
    CHECK_DRIVER(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
    CUdevResource own;
    CHECK_DRIVER(cuGreenCtxGetDevResource(green[i], &own, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(own.sm.smCount, halves[i].sm.smCount);
  }
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) {
      Fill<<<4, 128, 0, stream[i]>>>(data[i], n, round + i);
      CHECK_CUDA(cudaGetLastError());
      CHECK_DRIVER(cuGreenCtxRecordEvent(green[i], done[i]));
    }
    CHECK_DRIVER(cuGreenCtxWaitEvent(green[0], done[1]));
    Add<<<4, 128, 0, stream[0]>>>(data[2], data[0], data[1], n);
    CHECK_CUDA(cudaGetLastError());
    CHECK_DRIVER(cuGreenCtxRecordEvent(green[0], done[0]));
    CHECK_DRIVER(cuGreenCtxWaitEvent(green[1], done[0]));
  }
  CHECK_CUDA(cudaDeviceSynchronize());  // of the primary context: and of its green ones
  std::vector<int> host(n);
  CHECK_CUDA(cudaMemcpy(host.data(), data[2], n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : host) EXPECT_EQ(value, 20 * 19 + 20);

  // With a green context's own context current the runtime goes on as before.
  CUcontext context, current;
  CHECK_DRIVER(cuCtxFromGreenCtx(&context, green[1]));
  CHECK_DRIVER(cuCtxPushCurrent(context));
  Fill<<<4, 128>>>(data[0], n, 77);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaStreamSynchronize(nullptr));
  CHECK_DRIVER(cuCtxPopCurrent(&current));
  CHECK_CUDA(cudaMemcpy(host.data(), data[0], n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : host) EXPECT_EQ(value, 77);
  for (int i = 0; i < 2; ++i) {
    CHECK_DRIVER(cuStreamDestroy(stream[i]));
    CHECK_DRIVER(cuGreenCtxDestroy(green[i]));
  }
  CHECK_CUDA(cudaMemset(data[0], 0, 4));
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
}
