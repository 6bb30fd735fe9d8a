// Conditional nodes as applications use them: a branch, a loop and a switch whose conditions kernels set on the device;
// bodies built by hand and captured.
#include <vector>

#include "check.h"

__global__ void Decide(cudaGraphConditionalHandle handle, const int* value) { cudaGraphSetConditional(handle, *value != 0); }

__global__ void CountDown(cudaGraphConditionalHandle handle, int* left, int* rounds) {
  ++*rounds;
  cudaGraphSetConditional(handle, --*left > 0);
}

__global__ void Choose(cudaGraphConditionalHandle handle, unsigned choice) { cudaGraphSetConditional(handle, choice); }

__global__ void Add(int* to, int value) { *to += value; }

static cudaGraphNodeParams Kernel(const void* function, void** arguments) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(function);
  params.kernel.gridDim = params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = arguments;
  return params;
}

// The bodies of a new conditional node behind `after`.
static std::vector<cudaGraph_t> AddConditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                                               cudaGraphConditionalNodeType type, unsigned size, cudaGraphNode_t* node) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  CHECK_CUDA(cudaGraphAddNode(node, graph, &after, nullptr, after == nullptr ? 0 : 1, &params));
  return {params.conditional.phGraph_out, params.conditional.phGraph_out + size};
}

static int Value(const int* device) {
  int value = -1;
  CHECK_CUDA(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void Launch(cudaGraph_t graph, int times) {
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < times; ++i) CHECK_CUDA(cudaGraphLaunch(exec, 0));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaGraphExecDestroy(exec));
}

static void Branch(int* data) {
  for (int condition = 0; condition < 2; ++condition) {
    cudaGraph_t graph;
    cudaGraphNode_t decide, branch, add;
    cudaGraphConditionalHandle handle;
    CHECK_CUDA(cudaMemset(data, 0, 4 * sizeof(int)));
    CHECK_CUDA(cudaMemset(data, condition, 1));
    CHECK_CUDA(cudaGraphCreate(&graph, 0));
    CHECK_CUDA(cudaGraphConditionalHandleCreate(&handle, graph));
    void* arguments[] = {&handle, &data};
    cudaGraphNodeParams params = Kernel(reinterpret_cast<void*>(Decide), arguments);
    CHECK_CUDA(cudaGraphAddNode(&decide, graph, nullptr, nullptr, 0, &params));
    const auto bodies = AddConditional(graph, decide, handle, cudaGraphCondTypeIf, 2, &branch);
    for (int body = 0; body < 2; ++body) {
      int* to = data + 1 + body;
      int value = 5;
      void* add_arguments[] = {&to, &value};
      params = Kernel(reinterpret_cast<void*>(Add), add_arguments);
      CHECK_CUDA(cudaGraphAddNode(&add, bodies[body], nullptr, nullptr, 0, &params));
    }
    Launch(graph, 3);
    EXPECT_EQ(Value(data + 1), condition == 1 ? 15 : 0);
    EXPECT_EQ(Value(data + 2), condition == 1 ? 0 : 15);
    CHECK_CUDA(cudaGraphDestroy(graph));
  }
}

// The body is captured from a stream.
static void Loop(int* data, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphNode_t loop;
  cudaGraphConditionalHandle handle;
  CHECK_CUDA(cudaMemset(data, 0, 4 * sizeof(int)));
  CHECK_CUDA(cudaMemset(data, 10, 1));
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  CHECK_CUDA(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  const auto bodies = AddConditional(graph, nullptr, handle, cudaGraphCondTypeWhile, 1, &loop);
  CHECK_CUDA(cudaStreamBeginCaptureToGraph(stream, bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  Add<<<1, 1, 0, stream>>>(data + 2, 3);
  CountDown<<<1, 1, 0, stream>>>(handle, data, data + 1);
  CHECK_CUDA(cudaStreamEndCapture(stream, nullptr));
  Launch(graph, 1);
  EXPECT_EQ(Value(data), 0);
  EXPECT_EQ(Value(data + 1), 10);
  EXPECT_EQ(Value(data + 2), 30);
  CHECK_CUDA(cudaGraphDestroy(graph));
}

static void Switch(int* data) {
  for (unsigned choice = 0; choice < 5; ++choice) {
    cudaGraph_t graph;
    cudaGraphNode_t choose, node, set;
    cudaGraphConditionalHandle handle;
    CHECK_CUDA(cudaMemset(data, 0, 4 * sizeof(int)));
    CHECK_CUDA(cudaGraphCreate(&graph, 0));
    CHECK_CUDA(cudaGraphConditionalHandleCreate(&handle, graph));
    void* arguments[] = {&handle, &choice};
    cudaGraphNodeParams params = Kernel(reinterpret_cast<void*>(Choose), arguments);
    CHECK_CUDA(cudaGraphAddNode(&choose, graph, nullptr, nullptr, 0, &params));
    const auto bodies = AddConditional(graph, choose, handle, cudaGraphCondTypeSwitch, 4, &node);
    for (int body = 0; body < 4; ++body) {
      cudaGraphNodeParams memset = {};
      memset.type = cudaGraphNodeTypeMemset;
      memset.memset.dst = data + body;
      memset.memset.elementSize = 4;
      memset.memset.value = 100 + body;
      memset.memset.width = memset.memset.height = 1;
      CHECK_CUDA(cudaGraphAddNode(&set, bodies[body], nullptr, nullptr, 0, &memset));
    }
    Launch(graph, 1);
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(Value(data + i), i == choice ? 100 + static_cast<int>(i) : 0);
    CHECK_CUDA(cudaGraphDestroy(graph));
  }
}

int main() {
  int* data;
  cudaStream_t stream;
  CHECK_CUDA(cudaMalloc(&data, 4 * sizeof(int)));
  CHECK_CUDA(cudaStreamCreate(&stream));
  Branch(data);
  Loop(data, stream);
  Switch(data);
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(data));
  std::puts("ok");
  return 0;
}
