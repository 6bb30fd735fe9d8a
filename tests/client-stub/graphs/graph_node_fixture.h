// A graph, a stream, two kernels and a page of device memory, for tests of graph nodes with both ends in one process.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/client-stub/both_ends.h"

namespace tessera {

// set: *out = a. countdown: --*counter, and the condition says whether any is left.
inline constexpr char kGraphPtx[] = R"(
.version 8.3
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry set(.param .u64 out, .param .u32 a) {
  .reg .u64 %rd<2>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [a];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry countdown(.param .u64 handle, .param .u64 counter) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [counter];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r1, %r1, 1;
  st.global.u32 [%rd2], %r1;
  setp.ne.u32 %p1, %r1, 0;
  selp.u32 %r2, 1, 0, %p1;
  {
    .param .b64 p0;
    st.param.b64 [p0], %rd1;
    .param .b32 p1;
    st.param.b32 [p1], %r2;
    call.uni cudaGraphSetConditional, (p0, p1);
  }
  ret;
}
)";

class GraphNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    Ends();
    ASSERT_EQ(cuMemAlloc(&device_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(device_, 0, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);  // stream_ does not wait for the legacy stream
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, kGraphPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&set_, module_, "set"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&countdown_, module_, "countdown"), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    if (exec_ != nullptr) {
      EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
    }
    if (graph_ != nullptr) {
      EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(device_), CUDA_SUCCESS);
  }
  void Instantiate() { ASSERT_EQ(cuGraphInstantiate(&exec_, graph_, 0), CUDA_SUCCESS); }
  void Launch() {
    ASSERT_EQ(cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  uint32_t Word(size_t index) {
    uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, device_ + index * 4, 4), CUDA_SUCCESS);
    return value;
  }
  CUresult Add(CUgraphNode* node, std::vector<CUgraphNode> after, CUgraphNodeParams* params,
               const CUgraphEdgeData* edges = nullptr) {
    return cuGraphAddNode(node, graph_, after.data(), edges, after.size(), params);
  }
  static CUgraphNodeParams Of(CUgraphNodeType type) {
    CUgraphNodeParams params{};
    params.type = type;
    return params;
  }
  CUgraphNodeParams KernelParams(void** arguments) {
    CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_KERNEL);
    params.kernel.func = set_;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = arguments;
    return params;
  }
  CUgraphNodeParams CopyToHost(void* host, size_t bytes) {
    CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_MEMCPY);
    params.memcpy.copyCtx = Ends().context();
    params.memcpy.copyParams = ToHost(host, bytes);
    return params;
  }
  // One row of `bytes`, of which both sides are memory of the host until the caller says otherwise.
  static CUDA_MEMCPY3D Row(size_t bytes) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return copy;
  }
  CUDA_MEMCPY3D ToHost(void* host, size_t bytes) {
    CUDA_MEMCPY3D copy = Row(bytes);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = device_;
    copy.dstHost = host;
    return copy;
  }
  CUDA_MEMCPY3D FromHost(const void* host, size_t bytes) {
    CUDA_MEMCPY3D copy = Row(bytes);
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device_;
    return copy;
  }

  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction set_ = nullptr, countdown_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

}  // namespace tessera
