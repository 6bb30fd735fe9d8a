// What copies and sets may name, as driver 580 answers on an H200: memory to the byte that was asked for; in a captured
// set anything until its graph is instantiated; and memory that no call has told the program of, but a kernel.
#include <cuda.h>

#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kBytes = 4096;

__device__ unsigned char told_by_kernel[kBytes];
__global__ void TellAddress(unsigned char** address) { *address = told_by_kernel; }

CUgraph CaptureSet(CUstream stream, CUdeviceptr address, size_t bytes) {
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_DRIVER(cuMemsetD8Async(address, 7, bytes, stream));
  CUgraph graph = nullptr;
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  return graph;
}

CUgraphNode OnlyNode(CUgraph graph) {
  CUgraphNode node = nullptr;
  size_t count = 1;
  CHECK_DRIVER(cuGraphGetNodes(graph, &node, &count));
  EXPECT_EQ(count, size_t{1});
  return node;
}

void Launch(CUgraph graph, CUstream stream) {
  CUgraphExec exec = nullptr;
  CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
  CHECK_DRIVER(cuGraphLaunch(exec, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  CHECK_DRIVER(cuGraphExecDestroy(exec));
}

// cuDNN does this: the graph gets its workspace after it was captured.
void CapturedSetsAreCheckedAtInstantiation(CUstream stream, CUdeviceptr memory) {
  std::vector<unsigned char> pageable(kBytes);
  for (const CUdeviceptr nowhere : {CUdeviceptr{0x80}, reinterpret_cast<CUdeviceptr>(pageable.data()), memory + 1}) {
    CUgraph graph = CaptureSet(stream, nowhere, kBytes);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS set;
    CHECK_DRIVER(cuGraphMemsetNodeGetParams(OnlyNode(graph), &set));
    EXPECT_EQ(set.dst, nowhere);
    set.dst = memory;
    CHECK_DRIVER(cuGraphMemsetNodeSetParams(OnlyNode(graph), &set));
    CHECK_DRIVER(cuMemsetD8(memory, 0, kBytes));
    CHECK_DRIVER(cuStreamSynchronize(nullptr));  // which the other stream does not wait for
    Launch(graph, stream);
    std::vector<unsigned char> result(kBytes);
    CHECK_DRIVER(cuMemcpyDtoH(result.data(), memory, kBytes));
    for (const unsigned char byte : result) EXPECT_EQ(byte, 7);
    CHECK_DRIVER(cuGraphDestroy(graph));
  }
}

void NodesSetRegisteredMemory(CUstream stream, CUcontext context, CUdeviceptr memory) {
  std::vector<unsigned char> registered(kBytes, 1);
  CHECK_DRIVER(cuMemHostRegister(registered.data(), kBytes, 0));
  const auto address = reinterpret_cast<CUdeviceptr>(registered.data());
  CUgraph graph = CaptureSet(stream, address + 8, kBytes - 16);
  CUDA_MEMSET_NODE_PARAMS set;
  CHECK_DRIVER(cuGraphMemsetNodeGetParams(OnlyNode(graph), &set));
  EXPECT_EQ(set.dst, address + 8);
  Launch(graph, stream);
  for (size_t i = 0; i < kBytes; ++i) EXPECT_EQ(registered[i], i < 8 || i >= kBytes - 8 ? 1 : 7);
  CHECK_DRIVER(cuGraphDestroy(graph));

  // A node that is made by hand is checked when it is made.
  CHECK_DRIVER(cuGraphCreate(&graph, 0));
  CUgraphNode node = nullptr;
  set = {};
  set.dst = address;
  set.elementSize = 1;
  set.value = 9;
  set.width = kBytes;
  set.height = 1;
  CHECK_DRIVER(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  Launch(graph, stream);
  for (const unsigned char byte : registered) EXPECT_EQ(byte, 9);
  for (const CUdeviceptr base : {address, memory}) {
    set.dst = base + 1;
    EXPECT_EQ(cuGraphMemsetNodeSetParams(node, &set), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context), CUDA_ERROR_INVALID_VALUE);
  }
  CHECK_DRIVER(cuGraphDestroy(graph));
  CHECK_DRIVER(cuMemHostUnregister(registered.data()));
}

void MemoryThatAKernelTells(CUstream stream) {
  unsigned char** told = nullptr;
  CHECK_CUDA(cudaMalloc(&told, sizeof(*told)));
  TellAddress<<<1, 1>>>(told);
  unsigned char* variable = nullptr;
  CHECK_CUDA(cudaMemcpy(&variable, told, sizeof(variable), cudaMemcpyDeviceToHost));
  const auto address = reinterpret_cast<CUdeviceptr>(variable);
  std::vector<unsigned char> sent(kBytes), received(kBytes);
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<unsigned char>(i * 7);
  CHECK_DRIVER(cuMemcpyHtoD(address, sent.data(), kBytes));
  CHECK_DRIVER(cuMemsetD8Async(address + 100, 3, 50, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  std::memset(sent.data() + 100, 3, 50);
  CHECK_DRIVER(cuMemcpy(reinterpret_cast<CUdeviceptr>(received.data()), address, kBytes));
  EXPECT_EQ(std::memcmp(sent.data(), received.data(), kBytes), 0);
  EXPECT_EQ(cuMemcpyHtoD(address + 1, sent.data(), kBytes), CUDA_ERROR_INVALID_VALUE);
  unsigned type = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  CUdeviceptr known = 0;
  CHECK_CUDA(cudaGetSymbolAddress(reinterpret_cast<void**>(&known), told_by_kernel));
  EXPECT_EQ(known, address);
  CHECK_CUDA(cudaFree(told));
}

void MemoryEndsWhereItWasAskedToEnd(CUstream stream, void* pinned) {
  CUdeviceptr small[2], pooled = 0;
  for (CUdeviceptr& block : small) CHECK_DRIVER(cuMemAlloc(&block, 100));
  CHECK_DRIVER(cuMemAllocAsync(&pooled, 100, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  const CUdeviceptr lower = small[0] < small[1] ? small[0] : small[1];
  const CUdeviceptr upper = small[0] < small[1] ? small[1] : small[0];
  for (const auto& [address, bytes] : {std::pair<CUdeviceptr, size_t>{lower, 101}, {pooled, 101}, {lower, upper - lower + 1}}) {
    EXPECT_EQ(cuMemsetD8Async(address, 0, bytes, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoDAsync(address, pinned, bytes, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(pinned, address, bytes), CUDA_ERROR_INVALID_VALUE);
  }
  CHECK_DRIVER(cuMemsetD8Async(lower, 0, 100, stream));
  CHECK_DRIVER(cuMemsetD8Async(pooled, 0, 100, stream));
  for (const CUdeviceptr block : small) CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuMemFreeAsync(pooled, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(cuMemsetD8Async(pooled, 0, 100, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8Async(upper, 0, 100, stream), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

int main() {
  CHECK_CUDA(cudaFree(nullptr));
  CUcontext context = nullptr;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  CUstream stream = nullptr;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory = 0;
  CHECK_DRIVER(cuMemAlloc(&memory, kBytes));
  void* pinned = nullptr;
  CHECK_DRIVER(cuMemHostAlloc(&pinned, 2 << 20, 0));
  CapturedSetsAreCheckedAtInstantiation(stream, memory);
  NodesSetRegisteredMemory(stream, context, memory);
  MemoryThatAKernelTells(stream);
  MemoryEndsWhereItWasAskedToEnd(stream, pinned);
  std::printf("ok\n");
}
