// Graphs that copy host memory which is not the driver's own: ordinary memory is read by the launch and written when it
// returns, registered memory is read and written when the nodes run.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void AddTo(int* data, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += value;
}

constexpr int kCount = 1'400'003;  // more than any piece
constexpr size_t kBytes = kCount * sizeof(int);

// What host nodes share with the nodes around them.
struct Loop {
  std::vector<int> source = std::vector<int>(kCount);
  std::vector<int> result = std::vector<int>(kCount);
  std::vector<int> seen;
  int round = 0;
};
static void CUDART_CB Produce(void* user) {
  auto* loop = static_cast<Loop*>(user);
  ++loop->round;
  for (int i = 0; i < kCount; i += 1000) loop->source[i] = loop->round;
}
static void CUDART_CB Consume(void* user) {
  auto* loop = static_cast<Loop*>(user);
  int same = loop->result[0];
  for (int i = 0; i < kCount; i += 1000) same = loop->result[i] == same ? same : -1;
  loop->seen.push_back(same);
}
static std::atomic<bool> gate_open{false};
static void CUDART_CB WaitForGate(void*) {
  while (!gate_open.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

static cudaMemcpy3DParms Row(void* to, const void* from, size_t bytes) {
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(const_cast<void*>(from), bytes, bytes, 1);
  copy.dstPtr = make_cudaPitchedPtr(to, bytes, bytes, 1);
  copy.extent = make_cudaExtent(bytes, 1, 1);
  copy.kind = cudaMemcpyDefault;
  return copy;
}

int main() {
  int *device, *other;
  CHECK_CUDA(cudaMalloc(&device, kBytes));
  CHECK_CUDA(cudaMalloc(&other, kBytes));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));

  // Captured; launches pile up behind each other and share the memory through host nodes.
  auto* loop = new Loop;
  CHECK_CUDA(cudaHostRegister(loop->source.data(), kBytes, cudaHostRegisterDefault));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaLaunchHostFunc(stream, Produce, loop));
  CHECK_CUDA(cudaMemcpyAsync(device, loop->source.data(), kBytes, cudaMemcpyHostToDevice, stream));
  AddTo<<<(kCount + 255) / 256, 256, 0, stream>>>(device, kCount, 1000);
  CHECK_CUDA(cudaMemcpyAsync(loop->result.data(), device, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaLaunchHostFunc(stream, Consume, loop));
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[8];
  size_t count = 8;
  CHECK_CUDA(cudaGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, size_t{5});
  int copies = 0;
  for (size_t i = 0; i < count; ++i) {
    cudaGraphNodeType type;
    CHECK_CUDA(cudaGraphNodeGetType(nodes[i], &type));
    EXPECT_EQ(type == cudaGraphNodeTypeGraph, false);
    if (type != cudaGraphNodeTypeMemcpy) continue;
    ++copies;
    cudaMemcpy3DParms params;
    CHECK_CUDA(cudaGraphMemcpyNodeGetParams(nodes[i], &params));
    EXPECT_EQ(params.srcPtr.ptr == loop->source.data() || params.dstPtr.ptr == loop->result.data(), true);
    cudaGraph_t none;
    EXPECT_EQ(static_cast<int>(cudaGraphChildGraphNodeGetGraph(nodes[i], &none)), static_cast<int>(cudaErrorInvalidValue));
  }
  EXPECT_EQ(copies, 2);
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  const int rounds = 12;
  for (int i = 0; i < rounds; ++i) CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(loop->seen.size(), size_t{rounds});
  for (int i = 0; i < rounds; ++i) EXPECT_EQ(loop->seen[i], 1001 + i);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(loop->result[i], 1000 + (i % 1000 == 0 ? rounds : 0));

  // A clone, embedded in another graph, after the original has gone; its instance goes while it runs.
  cudaGraph_t clone, outer;
  CHECK_CUDA(cudaGraphClone(&clone, graph));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t child;
  CHECK_CUDA(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, clone));
  CHECK_CUDA(cudaGraphDestroy(clone));
  CHECK_CUDA(cudaGraphInstantiate(&exec, outer, 0));
  CHECK_CUDA(cudaGraphDestroy(outer));
  gate_open = false;
  CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForGate, nullptr));
  std::thread opener([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate_open = true;
  });
  CHECK_CUDA(cudaGraphLaunch(exec, stream));  // may wait for the stream, as it copies ordinary memory
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  opener.join();
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(loop->seen.back(), 1001 + rounds);

  // The launch reads ordinary memory at once and waits for nothing; two instances of one graph keep apart.
  std::vector<int> changing(1000);
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemcpyAsync(device, changing.data(), 4000, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  gate_open = false;
  CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForGate, nullptr));
  for (int i = 0; i < 3; ++i) {
    changing[999] = 10 + i;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaMemcpyAsync(other + i, device + 999, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  }
  changing[999] = 99;
  gate_open = true;
  cudaGraphExec_t second;
  CHECK_CUDA(cudaGraphInstantiate(&second, graph, 0));
  for (int i = 3; i < 9; ++i) {
    changing[999] = 10 + i;
    CHECK_CUDA(cudaGraphLaunch(i % 2 == 0 ? exec : second, stream));
    CHECK_CUDA(cudaMemcpyAsync(other + i, device + 999, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  }
  int nine[9];
  CHECK_CUDA(cudaMemcpyAsync(nine, other, sizeof(nine), cudaMemcpyDeviceToHost, stream));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(nine[i], 10 + i);
  CHECK_CUDA(cudaGraphExecDestroy(second));
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));

  // By hand: a source in ordinary memory, a result on the stack; then other memory for the instance, and for the graph.
  std::vector<int> source(kCount, 5), source_two(kCount, 6);
  int result = 0, result_two = 0;
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t up, kernel_node, down;
  cudaMemcpy3DParms copy = Row(device, source.data(), kBytes);
  CHECK_CUDA(cudaGraphAddMemcpyNode(&up, graph, nullptr, 0, &copy));
  int n = kCount, add = 40;
  void* arguments[] = {&device, &n, &add};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(AddTo);
  kernel.gridDim = dim3((kCount + 255) / 256);
  kernel.blockDim = dim3(256);
  kernel.kernelParams = arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&kernel_node, graph, &up, 1, &kernel));
  copy = Row(&result, device + kCount - 1, sizeof(int));
  CHECK_CUDA(cudaGraphAddMemcpyNode(&down, graph, &kernel_node, 1, &copy));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 5; ++round) {
    source[kCount - 1] = round;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    source[kCount - 1] = -1000;  // has been read
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(result, 40 + round);
  }
  source[kCount - 1] = 4;
  copy = Row(device, source_two.data(), kBytes);
  CHECK_CUDA(cudaGraphExecMemcpyNodeSetParams(exec, up, &copy));
  copy = Row(&result_two, device + kCount - 1, sizeof(int));
  CHECK_CUDA(cudaGraphExecMemcpyNodeSetParams(exec, down, &copy));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(result, 44);
  EXPECT_EQ(result_two, 46);
  cudaGraphExecUpdateResultInfo info;
  CHECK_CUDA(cudaGraphExecUpdate(exec, graph, &info));  // back to what the graph says
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(result, 44);
  CHECK_CUDA(cudaGraphMemcpyNodeSetParams(down, &copy));
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  source[kCount - 1] = result_two = 0;
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(result_two, 40);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));

  // Rows apart, from ordinary to ordinary memory, and of registered memory; the synchronous form is refused.
  const int width = 300, height = 200, apart = 450;
  std::vector<int> field(apart * height, 9), packed(width * height), twin(width * height), back(width * height);
  CHECK_CUDA(cudaHostRegister(back.data(), back.size() * sizeof(int), cudaHostRegisterDefault));
  CHECK_CUDA(cudaHostRegister(twin.data(), twin.size() * sizeof(int), cudaHostRegisterDefault));  // read in the graph
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK_CUDA(cudaMemcpy2DAsync(other, width * sizeof(int), field.data(), apart * sizeof(int), width * sizeof(int), height,
                               cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(packed.data(), other, packed.size() * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaMemcpyAsync(twin.data(), packed.data(), packed.size() * sizeof(int), cudaMemcpyHostToHost, stream));
  CHECK_CUDA(cudaMemcpyAsync(other, twin.data(), twin.size() * sizeof(int), cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(back.data(), other, back.size() * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < apart; ++x) field[y * apart + x] = x < width ? round + y * width + x : -1;
    }
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < width * height; ++i) EXPECT_EQ(back[i], round + i);
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaHostUnregister(back.data()));
  CHECK_CUDA(cudaHostUnregister(twin.data()));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(static_cast<int>(cudaMemcpy(device, source.data(), kBytes, cudaMemcpyHostToDevice)),
            static_cast<int>(cudaErrorStreamCaptureImplicit));
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph) == cudaSuccess, false);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaHostUnregister(loop->source.data()));
  delete loop;
  std::puts("ok");
  return 0;
}
