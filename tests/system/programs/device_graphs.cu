// Graphs that kernels launch (cudaGraphInstantiateFlagDeviceLaunch) and kernel nodes that kernels change
// (cudaLaunchAttributeDeviceUpdatableKernelNode): all kinds of launches and changes, what such graphs may use of memory, and
// handles that the driver gives again. What is refused natively is refused here. Needs a device of compute capability 9.0.
#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

constexpr int kAdders = 32;  // threads of an adding kernel

__device__ int codes[4];
__device__ cudaGraphExec_t launched;

__global__ void add(int* to, int n) {
  if (threadIdx.x == 0) atomicAdd(to, n);
}
__global__ void launch(cudaGraphExec_t graph, uint64_t how, int slot) {
  codes[slot] = static_cast<int>(cudaGraphLaunch(graph, reinterpret_cast<cudaStream_t>(how)));
}
__global__ void launch_variable(int slot) {
  codes[slot] = static_cast<int>(cudaGraphLaunch(launched, cudaStreamGraphFireAndForget));
}
__global__ void launch_twice(cudaGraphExec_t graph) {
  for (int i = 0; i < 2; ++i) codes[i] = static_cast<int>(cudaGraphLaunch(graph, cudaStreamGraphFireAndForget));
}
// Launches its own graph again until `count` is `limit`.
__global__ void again(int* count, int limit) {
  if (atomicAdd(count, 1) + 1 < limit)
    codes[0] = static_cast<int>(cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch));
}
__global__ void set_number(cudaGraphDeviceNode_t node, int n) {
  codes[0] = static_cast<int>(cudaGraphKernelNodeSetParam(node, 8, n));
}
__global__ void set_pointer(cudaGraphDeviceNode_t node, int* to) {
  codes[0] = static_cast<int>(cudaGraphKernelNodeSetParam(node, 0, to));
}
__global__ void set_enabled(cudaGraphDeviceNode_t node, bool enabled) {
  codes[0] = static_cast<int>(cudaGraphKernelNodeSetEnabled(node, enabled));
}
__global__ void set_blocks(cudaGraphDeviceNode_t node, unsigned blocks) {
  codes[0] = static_cast<int>(cudaGraphKernelNodeSetGridDim(node, dim3(blocks, 1, 1)));
}

constexpr uint64_t kFireAndForget = 0x0200000000000000, kTail = 0x0100000000000000, kSibling = 0x0300000000000000;

cudaStream_t stream;
int* memory;  // of the device

template <typename Work>
cudaGraph_t Capture(cudaStream_t on, Work work) {
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
  work();
  CHECK_CUDA(cudaStreamEndCapture(on, &graph));
  return graph;
}
cudaGraph_t Adding(int* to, int n) {
  return Capture(stream, [&] { add<<<1, kAdders, 0, stream>>>(to, n); });
}
cudaGraphExec_t ForKernels(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  return exec;
}
cudaGraphExec_t ForHost(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}
cudaGraphExec_t Launching(cudaGraphExec_t graph, uint64_t how = kFireAndForget) {
  return ForHost(Capture(stream, [&] { launch<<<1, 1, 0, stream>>>(graph, how, 0); }));
}
int Code(int slot = 0) {
  int all[4];
  CHECK_CUDA(cudaMemcpyFromSymbol(all, codes, sizeof(all)));
  return all[slot];
}
int Value(const int* at = nullptr) {
  int value;
  CHECK_CUDA(cudaMemcpy(&value, at == nullptr ? memory : at, sizeof(value), cudaMemcpyDeviceToHost));
  return value;
}
void Clear() {
  CHECK_CUDA(cudaMemsetAsync(memory, 0, sizeof(int), stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
}
void Run(cudaGraphExec_t exec) {
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
}

void Launches() {
  Clear();
  cudaGraphExec_t exec = ForKernels(Adding(memory, 1));
  cudaGraphExec_t launcher = Launching(exec);
  Run(launcher);
  EXPECT_EQ(Code(), cudaErrorInvalidValue);  // not uploaded
  EXPECT_EQ(Value(), 0);
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  Run(launcher);
  EXPECT_EQ(Code(), cudaSuccess);
  EXPECT_EQ(Value(), 1);
  Run(exec);  // by the host
  EXPECT_EQ(Value(), 2);
  int expected = 2;
  for (const uint64_t how : {kTail, kSibling, kFireAndForget}) {
    cudaGraphExec_t other = Launching(exec, how);
    Run(other);
    EXPECT_EQ(Code(), cudaSuccess);
    EXPECT_EQ(Value(), ++expected);
    CHECK_CUDA(cudaGraphExecDestroy(other));
  }
  cudaGraphExec_t wrong = Launching(exec, 0);
  Run(wrong);
  EXPECT_EQ(Code(), cudaErrorInvalidValue);  // no stream for launches by kernels
  cudaGraphExec_t twice = ForHost(Capture(stream, [&] { launch_twice<<<1, 1, 0, stream>>>(exec); }));
  Run(twice);
  EXPECT_EQ(Code(0), cudaSuccess);
  EXPECT_EQ(Code(1), cudaErrorInvalidValue);  // it was running
  EXPECT_EQ(Value(), ++expected);
  // The handle as a variable, and in memory.
  CHECK_CUDA(cudaMemcpyToSymbol(launched, &exec, sizeof(exec)));
  cudaGraphExec_t variable = ForHost(Capture(stream, [&] { launch_variable<<<1, 1, 0, stream>>>(0); }));
  Run(variable);
  EXPECT_EQ(Code(), cudaSuccess);
  EXPECT_EQ(Value(), ++expected);
  // One of kernels that launches one of kernels.
  cudaGraphExec_t middle = ForKernels(Capture(stream, [&] { launch<<<1, 1, 0, stream>>>(exec, kFireAndForget, 1); }));
  CHECK_CUDA(cudaGraphUpload(middle, stream));
  cudaGraphExec_t outer = Launching(middle);
  Run(outer);
  EXPECT_EQ(Code(0), cudaSuccess);
  EXPECT_EQ(Code(1), cudaSuccess);
  EXPECT_EQ(Value(), ++expected);
  // And one that launches itself.
  Clear();
  cudaGraphExec_t self = ForKernels(Capture(stream, [&] { again<<<1, 1, 0, stream>>>(memory, 100); }));
  CHECK_CUDA(cudaGraphUpload(self, stream));
  Run(self);
  EXPECT_EQ(Value(), 100);
  for (cudaGraphExec_t one : {self, outer, middle, variable, twice, wrong, launcher, exec}) CHECK_CUDA(cudaGraphExecDestroy(one));
}

void ChangesByTheHost() {
  Clear();
  cudaGraph_t graph = Adding(memory, 1);
  cudaGraphNode_t node;
  size_t count = 1;
  CHECK_CUDA(cudaGraphGetNodes(graph, &node, &count));
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams with{};
  with.flags = cudaGraphInstantiateFlagDeviceLaunch | cudaGraphInstantiateFlagUpload;
  with.uploadStream = stream;
  CHECK_CUDA(cudaGraphInstantiateWithParams(&exec, graph, &with));
  cudaGraphExec_t launcher = Launching(exec);
  Run(launcher);
  EXPECT_EQ(Value(), 1);
  cudaKernelNodeParams params;
  CHECK_CUDA(cudaGraphKernelNodeGetParams(node, &params));
  int ten = 10;
  void* arguments[] = {&memory, &ten};
  params.kernelParams = arguments;
  CHECK_CUDA(cudaGraphExecKernelNodeSetParams(exec, node, &params));
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  Run(launcher);
  EXPECT_EQ(Value(), 11);
  cudaGraphExecUpdateResultInfo info;
  CHECK_CUDA(cudaGraphExecUpdate(exec, Adding(memory, 100), &info));
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  Run(launcher);
  EXPECT_EQ(Value(), 111);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphExecDestroy(launcher));
}

// The launching graph's stream has what the launched graph wrote, whatever memory it is in.
void Memory() {
  int *managed, *mapped, *mapped_device;
  CHECK_CUDA(cudaMallocManaged(&managed, sizeof(int)));
  CHECK_CUDA(cudaHostAlloc(&mapped, sizeof(int), cudaHostAllocMapped));
  CHECK_CUDA(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
  std::vector<int> pages(3 * 1024);
  int* const registered = pages.data() + 1024;
  int* registered_device;
  CHECK_CUDA(cudaHostRegister(registered, 1024 * sizeof(int), cudaHostRegisterMapped));
  CHECK_CUDA(cudaHostGetDevicePointer(&registered_device, registered, 0));
  struct {
    int* host;
    int* device;
  } const all[] = {{managed, managed}, {mapped, mapped_device}, {registered, registered_device}};
  for (const auto& one : all) {
    *one.host = 0;
    cudaGraphExec_t exec = ForKernels(Adding(one.device, 1));
    CHECK_CUDA(cudaGraphUpload(exec, stream));
    cudaGraphExec_t launchers[] = {Launching(exec), Launching(exec, kTail), Launching(exec, kSibling)};
    int expected = 0;
    for (int round = 0; round < 3; ++round) {
      for (cudaGraphExec_t launcher : launchers) {
        *one.host += 1000;  // what the host writes, the next launch finds
        expected += 1001;
        Run(launcher);
        EXPECT_EQ(Code(), cudaSuccess);
        EXPECT_EQ(*one.host, expected);
      }
    }
    for (cudaGraphExec_t launcher : launchers) CHECK_CUDA(cudaGraphExecDestroy(launcher));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
  }
  // Copies by the graph: of pinned memory on the host of the GPU, of registered memory natively.
  for (int* const host : {mapped, registered}) {
    *host = 5;
    cudaGraph_t graph =
        Capture(stream, [&] { CHECK_CUDA(cudaMemcpyAsync(memory, host, sizeof(int), cudaMemcpyHostToDevice, stream)); });
    cudaGraphExec_t exec;
    const cudaError_t error = cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch);
    if (error == cudaErrorNotSupported) continue;  // it would have to be done by the program's own process
    CHECK_CUDA(error);
    CHECK_CUDA(cudaGraphUpload(exec, stream));
    cudaGraphExec_t launcher = Launching(exec);
    for (int round = 0; round < 3; ++round) {
      *host = 50 + round;
      Run(launcher);
      EXPECT_EQ(Value(), 50 + round);
    }
    CHECK_CUDA(cudaGraphExecDestroy(launcher));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
  }
  CHECK_CUDA(cudaHostUnregister(registered));
  CHECK_CUDA(cudaFreeHost(mapped));
  CHECK_CUDA(cudaFree(managed));
}

void Refused(cudaGraph_t graph, cudaGraphInstantiateResult why) {
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams with{};
  with.flags = cudaGraphInstantiateFlagDeviceLaunch;
  EXPECT_EQ(cudaGraphInstantiateWithParams(&exec, graph, &with), cudaErrorInvalidValue);
  EXPECT_EQ(with.result_out, why);
  EXPECT_EQ(with.errNode_out != nullptr, why == cudaGraphInstantiateNodeOperationNotSupported);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch), cudaErrorInvalidValue);
  cudaGetLastError();
}

void Refusals() {
  static int ordinary[16];
  cudaGraph_t empty;
  CHECK_CUDA(cudaGraphCreate(&empty, 0));
  Refused(empty, cudaGraphInstantiateError);
  const auto copy = [](void* to, const void* from, cudaMemcpyKind kind) {
    return Capture(stream, [&] { CHECK_CUDA(cudaMemcpyAsync(to, from, sizeof(ordinary), kind, stream)); });
  };
  Refused(copy(memory, ordinary, cudaMemcpyHostToDevice), cudaGraphInstantiateNodeOperationNotSupported);
  Refused(copy(ordinary, memory, cudaMemcpyDeviceToHost), cudaGraphInstantiateNodeOperationNotSupported);
  Refused(Capture(stream,
                  [] {
                    CHECK_CUDA(cudaLaunchHostFunc(
                        stream, [](void*) {}, nullptr));
                  }),
          cudaGraphInstantiateNodeOperationNotSupported);
}

// A launch of add() as a node that kernels change; it must be captured.
cudaGraphDeviceNode_t LaunchUpdatable(int* to, int n) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeDeviceUpdatableKernelNode;
  attribute.val.deviceUpdatableKernelNode.deviceUpdatable = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kAdders);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK_CUDA(cudaLaunchKernelEx(&config, add, to, n));
  return attribute.val.deviceUpdatableKernelNode.devNode;
}

void ChangesByKernels() {
  Clear();
  cudaGraphDeviceNode_t node = nullptr;
  cudaGraph_t graph = Capture(stream, [&] { node = LaunchUpdatable(memory, 1); });
  cudaGraphNode_t of_host;
  size_t count = 1;
  CHECK_CUDA(cudaGraphGetNodes(graph, &of_host, &count));
  cudaKernelNodeAttrValue value{};
  CHECK_CUDA(cudaGraphKernelNodeGetAttribute(of_host, cudaLaunchAttributeDeviceUpdatableKernelNode, &value));
  EXPECT_EQ(value.deviceUpdatableKernelNode.deviceUpdatable, 1);
  EXPECT_EQ(value.deviceUpdatableKernelNode.devNode == node, true);
  cudaGraphExec_t exec = ForHost(graph);
  const auto run = [&](int expected) {
    Run(exec);
    EXPECT_EQ(Code(), cudaSuccess);
    EXPECT_EQ(Value(), expected);
  };
  set_number<<<1, 1, 0, stream>>>(node, 50);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Code() == cudaSuccess, false);  // not uploaded: which code is not always the same
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  set_number<<<1, 1, 0, stream>>>(node, 7);
  run(7);
  set_enabled<<<1, 1, 0, stream>>>(node, false);
  run(7);
  set_enabled<<<1, 1, 0, stream>>>(node, true);
  run(14);
  set_blocks<<<1, 1, 0, stream>>>(node, 4);
  run(42);
  set_blocks<<<1, 1, 0, stream>>>(node, 0);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Code(), cudaErrorInvalidValue);
  // Memory of the host by a pointer that the kernel had.
  int *mapped, *mapped_device;
  CHECK_CUDA(cudaHostAlloc(&mapped, sizeof(int), cudaHostAllocMapped));
  CHECK_CUDA(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
  *mapped = 3;
  set_pointer<<<1, 1, 0, stream>>>(node, mapped_device);
  run(42);
  EXPECT_EQ(*mapped, 31);
  // The graph outlives its template; a second instance and copies there are none.
  cudaGraphExec_t second;
  EXPECT_EQ(cudaGraphInstantiate(&second, graph, 0), cudaErrorNotSupported);
  cudaGraph_t clone;
  EXPECT_EQ(cudaGraphClone(&clone, graph), cudaErrorNotSupported);
  EXPECT_EQ(cudaGraphDestroyNode(of_host), cudaErrorNotSupported);
  cudaGetLastError();
  CHECK_CUDA(cudaGraphDestroy(graph));
  set_number<<<1, 1, 0, stream>>>(node, 1);
  run(42);
  EXPECT_EQ(*mapped, 35);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaFreeHost(mapped));
  // A graph that changes its own next node, and is launched by a kernel.
  Clear();
  cudaGraph_t own;
  CHECK_CUDA(cudaGraphCreate(&own, 0));
  graph = Capture(stream, [&] {
    set_blocks<<<1, 1, 0, stream>>>(nullptr, 5);
    node = LaunchUpdatable(memory, 1);
  });
  cudaGraphNode_t root;
  count = 1;
  CHECK_CUDA(cudaGraphGetRootNodes(graph, &root, &count));
  cudaKernelNodeParams params;
  CHECK_CUDA(cudaGraphKernelNodeGetParams(root, &params));
  unsigned five = 5;
  void* arguments[] = {&node, &five};
  params.kernelParams = arguments;
  CHECK_CUDA(cudaGraphKernelNodeSetParams(root, &params));
  exec = ForKernels(graph);
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  cudaGraphExec_t launcher = Launching(exec);
  Run(launcher);
  EXPECT_EQ(Value(), 5);
  CHECK_CUDA(cudaGraphExecDestroy(launcher));
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

// Handles that come again, from several threads: each is the graph that was made last.
void HandlesComeAgain() {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      cudaStream_t own;
      int* at;
      CHECK_CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      CHECK_CUDA(cudaMalloc(&at, sizeof(int)));
      for (int round = 1; round <= 20; ++round) {
        const int n = 100 * thread + round;
        CHECK_CUDA(cudaMemsetAsync(at, 0, sizeof(int), own));
        cudaGraph_t graph = Capture(own, [&] { add<<<1, kAdders, 0, own>>>(at, n); });
        cudaGraphExec_t exec = ForKernels(graph);
        CHECK_CUDA(cudaGraphUpload(exec, own));
        cudaGraph_t around = Capture(own, [&] { launch<<<1, 1, 0, own>>>(exec, kFireAndForget, thread); });
        cudaGraphExec_t launcher = ForHost(around);
        CHECK_CUDA(cudaGraphLaunch(launcher, own));
        CHECK_CUDA(cudaGraphLaunch(exec, own));
        CHECK_CUDA(cudaStreamSynchronize(own));
        int value;
        CHECK_CUDA(cudaMemcpyAsync(&value, at, sizeof(int), cudaMemcpyDeviceToHost, own));
        CHECK_CUDA(cudaStreamSynchronize(own));
        EXPECT_EQ(value, 2 * n);
        CHECK_CUDA(cudaGraphExecDestroy(exec));
        CHECK_CUDA(cudaGraphExecDestroy(launcher));
        CHECK_CUDA(cudaGraphDestroy(graph));
        CHECK_CUDA(cudaGraphDestroy(around));
      }
      CHECK_CUDA(cudaFree(at));
      CHECK_CUDA(cudaStreamDestroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// An error in a graph that a kernel launched comes from the stream of the launching one.
void AnErrorInALaunchedGraph() {
  cudaGraphExec_t exec = ForKernels(Adding(reinterpret_cast<int*>(16), 1));
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  cudaGraphExec_t launcher = Launching(exec);
  CHECK_CUDA(cudaGraphLaunch(launcher, stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

int main() {
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(&memory, 4096));
  Launches();
  std::puts("launches");
  ChangesByTheHost();
  std::puts("changes by the host");
  Memory();
  std::puts("memory");
  Refusals();
  std::puts("refusals");
  ChangesByKernels();
  std::puts("changes by kernels");
  HandlesComeAgain();
  std::puts("handles come again");
  AnErrorInALaunchedGraph();
  std::puts("ok");
}
