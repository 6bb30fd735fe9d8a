// CUDA graphs: captured from two streams, launched many times, with a host node and copies; built by hand as well.
#include <atomic>
#include <vector>

#include "check.h"

__global__ void Step(int* data, int n, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * 2 + add;
}

static std::atomic<int> host_calls{0};
static void CUDART_CB CountCall(void* user) { host_calls += *static_cast<int*>(user); }

int main() {
  const int n = 3000, rounds = 20;
  int *device, *other, *host;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&other, n * sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&host, n * sizeof(int)));
  cudaStream_t stream, side;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaStreamCreate(&side));
  cudaEvent_t fork, join;
  CHECK_CUDA(cudaEventCreate(&fork));
  CHECK_CUDA(cudaEventCreate(&join));
  int one = 1;

  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemsetAsync(device, 0, n * sizeof(int), stream));
  CHECK_CUDA(cudaEventRecord(fork, stream));
  CHECK_CUDA(cudaStreamWaitEvent(side, fork, 0));
  CHECK_CUDA(cudaMemsetAsync(other, 1, n * sizeof(int), side));
  Step<<<24, 128, 0, stream>>>(device, n, 5);
  Step<<<24, 128, 0, side>>>(other, n, 1);
  CHECK_CUDA(cudaEventRecord(join, side));
  CHECK_CUDA(cudaStreamWaitEvent(stream, join, 0));
  Step<<<24, 128, 0, stream>>>(device, n, 7);
  CHECK_CUDA(cudaLaunchHostFunc(stream, CountCall, &one));
  CHECK_CUDA(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  cudaStreamCaptureStatus status;
  CHECK_CUDA(cudaStreamIsCapturing(side, &status));
  EXPECT_EQ(static_cast<int>(status), static_cast<int>(cudaStreamCaptureStatusActive));
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, size_t{7});
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < n; ++i) host[i] = -1;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 5 * 2 + 7);
  }
  EXPECT_EQ(host_calls.load(), rounds);
  std::vector<int> others(n);
  CHECK_CUDA(cudaMemcpy(others.data(), other, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : others) EXPECT_EQ(value, 0x01010101 * 2 + 1);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));

  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t set_node, kernel_node;
  cudaMemsetParams set{};
  set.dst = device;
  set.elementSize = 1;
  set.width = n * sizeof(int);
  set.height = 1;
  CHECK_CUDA(cudaGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));
  int count = n, add = 11;
  void* arguments[] = {&device, &count, &add};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(Step);
  kernel.gridDim = dim3(24);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&kernel_node, graph, &set_node, 1, &kernel));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 11);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaDeviceSynchronize());
  std::puts("ok");
  return 0;
}
