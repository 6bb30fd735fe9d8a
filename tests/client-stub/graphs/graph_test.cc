// Stream capture and graphs with both ends in one process, on the emulator.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

// out[i] = a + i for i below the number of threads.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 out, .param .u32 a) {
  .reg .u64 %rd<4>;
  .reg .u32 %r<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [a];
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
  ret;
}
)";

class GraphTest : public testing::Test {
 protected:
  void SetUp() override {
    Ends();
    ASSERT_EQ(cuMemAlloc(&device_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAllocHost(reinterpret_cast<void**>(&host_), 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&add_, module_, "add"), CUDA_SUCCESS);
    std::memset(host_, 0, 4096);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(host_), CUDA_SUCCESS);
  }
  CUresult Add(CUstream stream, uint32_t a, unsigned threads = 4) {
    void* params[] = {&device_, &a};
    return cuLaunchKernel(add_, 1, 1, 1, threads, 1, 1, 0, stream, params, nullptr);
  }
  CUstreamCaptureStatus Status() {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
    return status;
  }

  CUdeviceptr device_ = 0;
  uint32_t* host_ = nullptr;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction add_ = nullptr;
};

TEST_F(GraphTest, CaptureInstantiateLaunch) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(Status(), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(Add(stream_, 100), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(host_, device_, 16, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(Status(), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(host_[0], 0u) << "captured work does not run";

  size_t count = 0;
  ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2u);
  CUgraphNode nodes[4] = {};
  count = 4;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(nodes[2], nullptr);
  CUgraphNodeType type;
  ASSERT_EQ(cuGraphNodeGetType(nodes[0], &type), CUDA_SUCCESS);
  ASSERT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  CUDA_KERNEL_NODE_PARAMS params{};
  ASSERT_EQ(cuGraphKernelNodeGetParams(nodes[0], &params), CUDA_SUCCESS);
  EXPECT_EQ(params.func, add_);
  EXPECT_EQ(params.blockDimX, 4u);
  ASSERT_NE(params.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(params.kernelParams[0]), device_);
  EXPECT_EQ(*static_cast<uint32_t*>(params.kernelParams[1]), 100u);

  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 10; ++i) {
    host_[3] = 0;
    ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(host_[3], 103u);
  }
  uint32_t other = 500;
  void* changed[] = {&device_, &other};
  params.kernelParams = changed;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams(exec, nodes[0], &params), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphNodeGetType(nodes[0], &type), CUDA_ERROR_INVALID_VALUE) << "nodes end with their graph";
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(host_[3], 503u);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, IllegalCallsInvalidateAndTheStreamRecovers) {
  for (CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph graph = reinterpret_cast<CUgraph>(8);
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
    ASSERT_EQ(Add(stream_, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(Status(), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(Add(stream_, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(Add(stream_, 7), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(host_, device_, 4), CUDA_SUCCESS);
    EXPECT_EQ(host_[0], 7u);
  }
}

TEST_F(GraphTest, UnsafeCallsDuringCapture) {
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(Ends().context());
    CUdeviceptr other = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(cuMemAlloc(&other, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  }).join();
  EXPECT_EQ(Status(), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cuMemsetD8(device_, 0, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) << "uses the legacy stream";
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(GraphTest, ForkJoinAndUnjoined) {
  CUstream fork = nullptr;
  CUevent a = nullptr, b = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamCreate(&fork, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&a, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&b, 0), CUDA_SUCCESS);
  for (const bool join : {true, false}) {
    ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32Async(device_, 5, 4, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(a, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(fork, a, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync(host_, device_, 16, fork), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(b, fork), CUDA_SUCCESS);
    if (join) {
      ASSERT_EQ(cuStreamWaitEvent(stream_, b, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (join) {
      CUgraphExec exec = nullptr;
      size_t edges = 0;
      EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
      EXPECT_EQ(edges, 1u);
      ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuGraphLaunch(exec, fork), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamSynchronize(fork), CUDA_SUCCESS);
      EXPECT_EQ(host_[3], 5u);
      EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuEventQuery(a), CUDA_ERROR_INVALID_VALUE) << "the event of a capture that is over";
    CUstreamCaptureStatus status;
    EXPECT_EQ(cuStreamIsCapturing(fork, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  }
  EXPECT_EQ(cuEventDestroy(a), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(b), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(fork), CUDA_SUCCESS);
}

TEST_F(GraphTest, CaptureInfoNamesGraphAndDependencies) {
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr, ended = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 99;
  ASSERT_EQ(cuStreamGetCaptureInfo(stream_, &status, &id, &graph, &dependencies, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(count, 99u) << "left alone";
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(Add(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetCaptureInfo(stream_, &status, &id, &graph, &dependencies, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  CUgraphNodeType type;
  EXPECT_EQ(cuGraphNodeGetType(dependencies[0], &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  ASSERT_EQ(cuStreamEndCapture(stream_, &ended), CUDA_SUCCESS);
  EXPECT_EQ(ended, graph) << "the same graph has one handle";
  EXPECT_EQ(cuGraphDestroy(ended), CUDA_SUCCESS);
}

TEST_F(GraphTest, HostNodesRunAtEachLaunch) {
  static std::atomic<int> runs{0};
  runs = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                stream_, [](void*) { ++runs; }, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  CUgraphNode captured = nullptr, added = nullptr;
  size_t count = 1;
  ASSERT_EQ(cuGraphGetNodes(graph, &captured, &count), CUDA_SUCCESS);
  int marker = 0;
  const CUDA_HOST_NODE_PARAMS params{[](void* p) { ++*static_cast<int*>(p); }, &marker};
  ASSERT_EQ(cuGraphAddHostNode(&added, graph, &captured, 1, &params), CUDA_SUCCESS);
  CUDA_HOST_NODE_PARAMS seen{};
  ASSERT_EQ(cuGraphHostNodeGetParams(added, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.fn, params.fn);
  EXPECT_EQ(seen.userData, &marker);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(runs, 20);
  EXPECT_EQ(marker, 20);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(GraphTest, GraphsBuiltByHand) {
  CUgraph graph = nullptr, clone = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode set = nullptr, kernel = nullptr, copy = nullptr, in_clone = nullptr;
  EXPECT_EQ(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS memset_params{};
  memset_params.dst = device_;
  memset_params.value = 9;
  memset_params.elementSize = 4;
  memset_params.width = 8;
  memset_params.height = 1;
  ASSERT_EQ(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &memset_params, Ends().context()), CUDA_SUCCESS);
  uint32_t a = 40;
  void* kernel_params[] = {&device_, &a};
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = add_;
  params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.blockDimX = 4;
  params.kernelParams = kernel_params;
  ASSERT_EQ(cuGraphAddKernelNode(&kernel, graph, &set, 1, &params), CUDA_SUCCESS);
  CUDA_MEMCPY3D memcpy_params{};
  memcpy_params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  memcpy_params.srcDevice = device_;
  memcpy_params.dstMemoryType = CU_MEMORYTYPE_HOST;
  memcpy_params.dstHost = host_;
  memcpy_params.WidthInBytes = 32;
  memcpy_params.Height = memcpy_params.Depth = 1;
  ASSERT_EQ(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &memcpy_params, Ends().context()), CUDA_SUCCESS);
  uint32_t ordinary[8] = {};
  CUgraphNode to_ordinary = nullptr;
  memcpy_params.dstHost = ordinary;  // which only the client has
  ASSERT_EQ(cuGraphAddMemcpyNode(&to_ordinary, graph, &kernel, 1, &memcpy_params, Ends().context()), CUDA_SUCCESS);
  size_t count = 0;
  EXPECT_EQ(cuGraphGetRootNodes(graph, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  CUgraphNode dependency = nullptr;
  count = 1;
  EXPECT_EQ(cuGraphNodeGetDependencies(copy, &dependency, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(dependency, kernel);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(host_[3], 43u);
  EXPECT_EQ(host_[7], 9u);
  EXPECT_EQ(ordinary[3], 43u);
  EXPECT_EQ(ordinary[7], 9u);
  ASSERT_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeFindInClone(&in_clone, kernel, clone), CUDA_SUCCESS);
  EXPECT_NE(in_clone, kernel);
  CUgraphExecUpdateResultInfo info{};
  a = 70;
  ASSERT_EQ(cuGraphKernelNodeSetParams(kernel, &params), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecUpdate(exec, graph, &info), CUDA_SUCCESS);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(host_[3], 73u);
  ASSERT_EQ(cuGraphDestroyNode(copy), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_NE(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(clone), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(GraphTest, TheDotFileIsWrittenHere) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&node, graph, nullptr, 0), CUDA_SUCCESS);
  const std::string path = testing::TempDir() + "tessera_graph_test.dot";
  ASSERT_EQ(cuGraphDebugDotPrint(graph, path.c_str(), 0), CUDA_SUCCESS);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("digraph"), std::string::npos);
  EXPECT_EQ(cuGraphDebugDotPrint(graph, "/nonexistent/graph.dot", 0), CUDA_ERROR_OPERATING_SYSTEM);
  EXPECT_EQ(cuGraphDebugDotPrint(graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(GraphTest, ThreadsCaptureAtTheSameTime) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      cuCtxSetCurrent(Ends().context());
      const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
      CUstream stream = nullptr;
      ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      for (uint32_t round = 0; round < 30; ++round) {
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        ASSERT_EQ(cuStreamBeginCapture(stream, modes[(t + round) % 2]), CUDA_SUCCESS);
        ASSERT_EQ(cuMemsetD32Async(device_ + 64 * t, t * 1000 + round, 1, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoHAsync(host_ + 16 * t, device_ + 64 * t, 4, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        ASSERT_EQ(host_[16 * t], t * 1000 + round);
        ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
        ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
      }
      ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera
