// Memory of graphs: allocation and free nodes made by hand and by capture, memory that outlives its graph's launch, graphs
// that free what others allocate, AUTO_FREE_ON_LAUNCH, and what the device says of it.
#include <vector>

#include "check.h"

constexpr int kCount = 1 << 16;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void Fill(float* data, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) data[i] = value + i;
}

__global__ void Square(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) out[i] = in[i] * in[i];
}

__global__ void Negate(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) out[i] = -in[i];
}

static const dim3 kGrid(kCount / 256), kBlock(256);

static unsigned long long Attribute(cudaGraphMemAttributeType attribute) {
  unsigned long long value = 0;
  CHECK_CUDA(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
  return value;
}

static cudaMemAllocNodeParams OnDevice(size_t bytes) {
  cudaMemAllocNodeParams params = {};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  params.poolProps.location.id = 0;
  params.bytesize = bytes;
  return params;
}

static void Expect(const float* device, float (*wanted)(float)) {
  std::vector<float> host(kCount);
  CHECK_CUDA(cudaMemcpy(host.data(), device, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(host[i], wanted(static_cast<float>(i)));
}

// in -> square in memory of the graph -> negated, out; allocated and freed inside.
static void ByHand(cudaStream_t stream, float* in, float* out) {
  cudaGraph_t graph;
  cudaGraphNode_t alloc, square, negate, free_node;
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams params = OnDevice(kBytes);
  CHECK_CUDA(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
  float* middle = static_cast<float*>(params.dptr);
  void* square_arguments[] = {&in, &middle};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(Square);
  kernel.gridDim = kGrid;
  kernel.blockDim = kBlock;
  kernel.kernelParams = square_arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&square, graph, &alloc, 1, &kernel));
  void* negate_arguments[] = {&middle, &out};
  kernel.func = reinterpret_cast<void*>(Negate);
  kernel.kernelParams = negate_arguments;
  CHECK_CUDA(cudaGraphAddKernelNode(&negate, graph, &square, 1, &kernel));
  CHECK_CUDA(cudaGraphAddMemFreeNode(&free_node, graph, &negate, 1, middle));
  cudaMemAllocNodeParams seen = {};
  CHECK_CUDA(cudaGraphMemAllocNodeGetParams(alloc, &seen));
  EXPECT_EQ(seen.dptr == params.dptr && seen.bytesize == kBytes, true);
  void* freed = nullptr;
  CHECK_CUDA(cudaGraphMemFreeNodeGetParams(free_node, &freed));
  EXPECT_EQ(freed == params.dptr, true);
  cudaGraph_t clone;
  EXPECT_EQ(cudaGraphClone(&clone, graph) != cudaSuccess, true);
  cudaGetLastError();
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) {
    CHECK_CUDA(cudaMemset(out, 0, kBytes));
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    Expect(out, [](float x) { return -x * x; });
  }
  EXPECT_EQ(Attribute(cudaGraphMemAttrUsedMemHigh) >= kBytes, true);
  EXPECT_EQ(Attribute(cudaGraphMemAttrReservedMemCurrent) >= kBytes, true);
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaDeviceGraphMemTrim(0));
  unsigned long long value = 0;
  CHECK_CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value));
  value = 1;
  EXPECT_EQ(static_cast<int>(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value)),
            static_cast<int>(cudaErrorInvalidValue));
  cudaGetLastError();
}

// The same, captured from stream-ordered calls.
static void Captured(cudaStream_t stream, float* in, float* out) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float* middle;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMallocAsync(&middle, kBytes, stream));
  Square<<<kGrid, kBlock, 0, stream>>>(in, middle);
  Negate<<<kGrid, kBlock, 0, stream>>>(middle, out);
  CHECK_CUDA(cudaFreeAsync(middle, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  size_t count = 4;
  cudaGraphNode_t nodes[4];
  CHECK_CUDA(cudaGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, size_t{4});
  int allocations = 0, frees = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    CHECK_CUDA(cudaGraphNodeGetType(node, &type));
    allocations += type == cudaGraphNodeTypeMemAlloc;
    frees += type == cudaGraphNodeTypeMemFree;
  }
  EXPECT_EQ(allocations, 1);
  EXPECT_EQ(frees, 1);
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaMemset(out, 0, kBytes));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  Expect(out, [](float x) { return -x * x; });
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

// Memory that a launch leaves behind is used and freed outside; then the graph may be launched again, at the same address.
static void FreedOutside(cudaStream_t stream, float* in) {
  for (int how = 0; how < 3; ++how) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float* result;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaMallocAsync(&result, kBytes, stream));
    Square<<<kGrid, kBlock, 0, stream>>>(in, result);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, how == 2 ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
    for (int i = 0; i < 3; ++i) {
      CHECK_CUDA(cudaGraphLaunch(exec, stream));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      Expect(result, [](float x) { return x * x; });
      EXPECT_EQ(Attribute(cudaGraphMemAttrUsedMemCurrent) >= kBytes, true);
      cudaPointerAttributes attributes;
      CHECK_CUDA(cudaPointerGetAttributes(&attributes, result + 7));
      EXPECT_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeDevice));
      if (how == 0) {
        EXPECT_EQ(cudaGraphLaunch(exec, stream) != cudaSuccess, true);  // still allocated
        cudaGetLastError();
        CHECK_CUDA(cudaFreeAsync(result, stream));
      }
      if (how == 1) CHECK_CUDA(cudaFree(result));
    }
    if (how == 2) CHECK_CUDA(cudaFree(result));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaGraphDestroy(graph));
  }
}

// One graph allocates, another uses and frees.
static void FreedInAnotherGraph(cudaStream_t stream, float* in, float* out) {
  cudaGraph_t first, second;
  cudaGraphExec_t first_exec, second_exec;
  float* shared;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMallocAsync(&shared, kBytes, stream));
  Square<<<kGrid, kBlock, 0, stream>>>(in, shared);
  CHECK_CUDA(cudaStreamEndCapture(stream, &first));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  Negate<<<kGrid, kBlock, 0, stream>>>(shared, out);
  CHECK_CUDA(cudaFreeAsync(shared, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &second));
  CHECK_CUDA(cudaGraphInstantiate(&first_exec, first, 0));
  CHECK_CUDA(cudaGraphInstantiate(&second_exec, second, 0));
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cudaMemset(out, 0, kBytes));
    CHECK_CUDA(cudaGraphLaunch(first_exec, stream));
    CHECK_CUDA(cudaGraphLaunch(second_exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    Expect(out, [](float x) { return -x * x; });
  }
  CHECK_CUDA(cudaGraphExecDestroy(first_exec));
  CHECK_CUDA(cudaGraphExecDestroy(second_exec));
  CHECK_CUDA(cudaGraphDestroy(first));
  CHECK_CUDA(cudaGraphDestroy(second));
}

int main() {
  cudaStream_t stream;
  float *in, *out;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaMalloc(&in, kBytes));
  CHECK_CUDA(cudaMalloc(&out, kBytes));
  Fill<<<kGrid, kBlock, 0, stream>>>(in, 0);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  ByHand(stream, in, out);
  Captured(stream, in, out);
  FreedOutside(stream, in);
  FreedInAnotherGraph(stream, in, out);
  CHECK_CUDA(cudaFree(in));
  CHECK_CUDA(cudaFree(out));
  std::puts("ok");
  return 0;
}
