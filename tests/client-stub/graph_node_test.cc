// Nodes of every kind with both ends in one process: parameters in and out, results, error codes; user objects; copies of
// ordinary host memory. Allocation nodes need two processes: tests/system/programs/graph_memory.cu.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

// set: *out = a. countdown: --*counter, and the condition says whether any is left.
constexpr char kPtx[] = R"(
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
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&set_, module_, "set"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&countdown_, module_, "countdown"), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    if (exec_ != nullptr) EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
    if (graph_ != nullptr) EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
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
  CUDA_MEMCPY3D ToHost(void* host, size_t bytes) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = device_;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return copy;
  }
  CUDA_MEMCPY3D FromHost(const void* host, size_t bytes) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device_;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return copy;
  }

  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction set_ = nullptr, countdown_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

// A destructor runs some time after the last reference has gone.
bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(GraphNodeTest, OneStructForEveryKind) {
  CUgraphNode empty, kernel, memset, copy, host, operations, child, record, wait;
  CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_EMPTY);
  ASSERT_EQ(Add(&empty, {}, &params), CUDA_SUCCESS);
  uint32_t a = 11;
  void* arguments[] = {&device_, &a};
  params = KernelParams(arguments);
  ASSERT_EQ(Add(&kernel, {empty}, &params), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {device_ + 4, 0, 12, 4, 2, 1, Ends().context()};
  ASSERT_EQ(Add(&memset, {kernel}, &params), CUDA_SUCCESS);
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = device_ + 12;
  operation.writeValue.value = 13;
  params = Of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {Ends().context(), 1, &operation, 0};
  ASSERT_EQ(Add(&operations, {memset}, &params), CUDA_SUCCESS);
  CUgraph inner;
  CUgraphNode inner_set;
  const CUDA_MEMSET_NODE_PARAMS inner_params{device_ + 16, 0, 14, 4, 1, 1};
  ASSERT_EQ(cuGraphCreate(&inner, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemsetNode(&inner_set, inner, nullptr, 0, &inner_params, Ends().context()), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = inner;
  ASSERT_EQ(Add(&child, {operations}, &params), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(inner), CUDA_SUCCESS) << "the node has a clone";
  CUevent event;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  params.eventWait.event = event;
  ASSERT_EQ(Add(&wait, {child}, &params), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  params.eventRecord.event = event;
  ASSERT_EQ(Add(&record, {wait}, &params), CUDA_SUCCESS);
  uint32_t seen[5] = {};
  params = CopyToHost(seen, sizeof seen);
  ASSERT_EQ(Add(&copy, {record}, &params), CUDA_SUCCESS);
  std::atomic<uint32_t> sum{0};
  struct Both {
    uint32_t* seen;
    std::atomic<uint32_t>* sum;
  } both{seen, &sum};
  params = Of(CU_GRAPH_NODE_TYPE_HOST);
  params.host.fn = [](void* p) {
    auto* b = static_cast<Both*>(p);
    for (int i = 0; i < 5; ++i) *b->sum += b->seen[i];
  };
  params.host.userData = &both;
  ASSERT_EQ(Add(&host, {copy}, &params), CUDA_SUCCESS);

  const std::pair<CUgraphNode, CUgraphNodeType> kinds[] = {
      {empty, CU_GRAPH_NODE_TYPE_EMPTY},       {kernel, CU_GRAPH_NODE_TYPE_KERNEL},
      {memset, CU_GRAPH_NODE_TYPE_MEMSET},     {operations, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
      {child, CU_GRAPH_NODE_TYPE_GRAPH},       {wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT},
      {record, CU_GRAPH_NODE_TYPE_EVENT_RECORD}, {copy, CU_GRAPH_NODE_TYPE_MEMCPY},
      {host, CU_GRAPH_NODE_TYPE_HOST}};
  for (const auto& [node, kind] : kinds) {
    CUgraphNodeType type;
    ASSERT_EQ(cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
    EXPECT_EQ(type, kind);
  }
  Instantiate();
  Launch();
  EXPECT_EQ(sum, 11u + 12 + 12 + 13 + 14) << "the host node reads what the copy before it wrote";
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);

  a = 21;
  params = KernelParams(arguments);
  ASSERT_EQ(cuGraphExecNodeSetParams(exec_, kernel, &params), CUDA_SUCCESS);
  operation.writeValue.value = 23;
  params = Of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {Ends().context(), 1, &operation, 0};
  ASSERT_EQ(cuGraphExecNodeSetParams(exec_, operations, &params), CUDA_SUCCESS);
  sum = 0;
  Launch();
  EXPECT_EQ(sum, 21u + 12 + 12 + 23 + 14);

  params = Of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {device_ + 4, 0, 30, 4, 2, 1, Ends().context()};
  EXPECT_EQ(cuGraphNodeSetParams(kernel, &params), CUDA_ERROR_INVALID_VALUE) << "a node keeps its kind";
  ASSERT_EQ(cuGraphNodeSetParams(memset, &params), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS set{};
  ASSERT_EQ(cuGraphMemsetNodeGetParams(memset, &set), CUDA_SUCCESS);
  EXPECT_EQ(set.value, 30u);
  EXPECT_EQ(set.dst, device_ + 4);
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
  ASSERT_EQ(cuGraphBatchMemOpNodeGetParams(operations, &batch), CUDA_SUCCESS);
  ASSERT_EQ(batch.count, 1u);
  EXPECT_EQ(batch.paramArray[0].writeValue.value, 13u) << "the executable graph was changed, not this one";
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(GraphNodeTest, RefusedParameters) {
  CUgraphNode node = nullptr;
  CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_EQ(Add(&node, {}, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Add(nullptr, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params.reserved2 = 1;
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params.reserved2 = 0;
  params.reserved1[28] = 1;
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params = Of(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params = Of(CU_GRAPH_NODE_TYPE_KERNEL);
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_HANDLE);
  params = Of(static_cast<CUgraphNodeType>(99));
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params = Of(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_NOT_SUPPORTED);
  params = Of(CU_GRAPH_NODE_TYPE_HOST);
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE);
  params = Of(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = device_;
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE) << "not memory of a graph";
  uint32_t mine = 0;
  params = Of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {reinterpret_cast<CUdeviceptr>(&mine), 0, 1, 4, 1, 1, Ends().context()};
  EXPECT_EQ(Add(&node, {}, &params), CUDA_ERROR_INVALID_VALUE) << "never the worker's own memory";
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = reinterpret_cast<CUdeviceptr>(&mine);
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch{Ends().context(), 1, &operation, 0};
  EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph_, nullptr, 0, &batch), CUDA_ERROR_INVALID_VALUE);
  batch.count = 257;
  EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph_, nullptr, 0, &batch), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph_, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  size_t count = 9;
  EXPECT_EQ(cuGraphGetNodes(graph_, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(mine, 0u);
}

TEST_F(GraphNodeTest, EdgesThatAreMoreThanAfter) {
  uint32_t a = 1;
  void* arguments[] = {&device_, &a};
  CUgraphNodeParams params = KernelParams(arguments);
  CUgraphNode first, second, refused;
  ASSERT_EQ(Add(&first, {}, &params), CUDA_SUCCESS);
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  ASSERT_EQ(Add(&second, {first}, &params, &edge), CUDA_SUCCESS);
  CUgraphNodeParams empty = Of(CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_EQ(Add(&refused, {first}, &empty, &edge), CUDA_ERROR_INVALID_VALUE) << "between kernels only";
  CUgraphNode from = nullptr, to = nullptr;
  CUgraphEdgeData seen{};
  size_t count = 1;
  EXPECT_EQ(cuGraphGetEdges(graph_, &from, &to, nullptr, &count), CUDA_ERROR_LOSSY_QUERY);
  ASSERT_EQ(cuGraphGetEdges(graph_, &from, &to, &seen, &count), CUDA_SUCCESS);
  EXPECT_EQ(from, first);
  EXPECT_EQ(to, second);
  EXPECT_EQ(seen.type, edge.type);
  EXPECT_EQ(seen.from_port, edge.from_port);
  Instantiate();
  Launch();
  EXPECT_EQ(Word(0), 1u);
}

TEST_F(GraphNodeTest, CopiesOfOrdinaryMemoryReadAndWriteItAtEachLaunch) {
  std::vector<uint32_t> source(700), target(700);
  CUgraphNode in, out;
  const CUDA_MEMCPY3D to_device = FromHost(source.data(), 2800), to_host = ToHost(target.data(), 2800);
  ASSERT_EQ(cuGraphAddMemcpyNode(&in, graph_, nullptr, 0, &to_device, Ends().context()), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemcpyNode(&out, graph_, &in, 1, &to_host, Ends().context()), CUDA_SUCCESS);
  size_t count = 0;
  ASSERT_EQ(cuGraphGetNodes(graph_, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  CUgraphNodeType type;
  ASSERT_EQ(cuGraphNodeGetType(in, &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
  CUgraph inner;
  EXPECT_EQ(cuGraphChildGraphNodeGetGraph(in, &inner), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D seen{};
  ASSERT_EQ(cuGraphMemcpyNodeGetParams(in, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.srcHost, source.data());
  EXPECT_EQ(seen.dstDevice, device_);
  ASSERT_EQ(cuGraphMemcpyNodeGetParams(out, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.dstHost, target.data());
  CUgraph clone;
  CUgraphNode in_clone;
  ASSERT_EQ(cuGraphClone(&clone, graph_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeFindInClone(&in_clone, out, clone), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphMemcpyNodeGetParams(in_clone, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.dstHost, target.data());
  Instantiate();
  for (uint32_t round = 1; round < 6; ++round) {
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint32_t>(round * 1000 + i);
    Launch();
    ASSERT_EQ(target, source) << "the source is read at the launch, not before";
  }
  // Another target, in the executable graph and in the graph.
  std::vector<uint32_t> other(700);
  const CUDA_MEMCPY3D to_other = ToHost(other.data(), 2800);
  ASSERT_EQ(cuGraphExecMemcpyNodeSetParams(exec_, out, &to_other, Ends().context()), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphMemcpyNodeSetParams(out, &to_other), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphMemcpyNodeGetParams(out, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.dstHost, other.data());
  std::fill(target.begin(), target.end(), 0);
  Launch();
  EXPECT_EQ(other, source);
  EXPECT_EQ(target[5], 0u);
  // The clone has the old one still.
  CUgraphExec of_clone;
  ASSERT_EQ(cuGraphInstantiate(&of_clone, clone, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(clone), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(of_clone, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(target, source);
  EXPECT_EQ(cuGraphExecDestroy(of_clone), CUDA_SUCCESS);
  // A copy to the host stays one.
  CUDA_MEMCPY3D on_device = to_other;
  on_device.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  on_device.dstDevice = device_ + 2048;
  EXPECT_EQ(cuGraphMemcpyNodeSetParams(out, &on_device), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphNodeTest, CapturedCopiesOfOrdinaryMemory) {
  uint32_t source = 0, target = 0;
  ASSERT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  graph_ = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(device_, &source, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(&target, device_, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
  CUgraphNode nodes[2];
  size_t count = 2;
  ASSERT_EQ(cuGraphGetNodes(graph_, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2u);
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type;
    ASSERT_EQ(cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
  }
  CUgraphNode from = nullptr, to = nullptr;
  count = 1;
  ASSERT_EQ(cuGraphGetEdges(graph_, &from, &to, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  Instantiate();
  for (source = 5; source < 8; ++source) {
    Launch();
    EXPECT_EQ(target, source);
  }
}

TEST_F(GraphNodeTest, RowsOfOrdinaryMemory) {
  // 3 rows of 8 bytes out of rows of 32, from the second row on.
  std::vector<uint8_t> source(5 * 32), target(3 * 8);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i);
  CUDA_MEMCPY3D in = FromHost(source.data(), 8);
  in.srcXInBytes = 4;
  in.srcY = 1;
  in.srcPitch = 32;
  in.dstPitch = 8;
  in.Height = 3;
  CUgraphNode first, second;
  ASSERT_EQ(cuGraphAddMemcpyNode(&first, graph_, nullptr, 0, &in, Ends().context()), CUDA_SUCCESS);
  const CUDA_MEMCPY3D out = ToHost(target.data(), target.size());
  ASSERT_EQ(cuGraphAddMemcpyNode(&second, graph_, &first, 1, &out, Ends().context()), CUDA_SUCCESS);
  Instantiate();
  Launch();
  for (size_t row = 0; row < 3; ++row) {
    for (size_t x = 0; x < 8; ++x) EXPECT_EQ(target[row * 8 + x], (row + 1) * 32 + 4 + x);
  }
  in.srcPitch = 4;
  EXPECT_EQ(cuGraphAddMemcpyNode(&second, graph_, nullptr, 0, &in, Ends().context()), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphNodeTest, UserObjectsEndHereWithTheirLastHolder) {
  static std::atomic<int> destroyed{0};
  destroyed = 0;
  const CUhostFn destroy = [](void* p) { destroyed += *static_cast<int*>(p); };
  int one = 1;
  CUuserObject object = nullptr;
  EXPECT_EQ(cuUserObjectCreate(nullptr, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuUserObjectCreate(&object, &one, nullptr, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuUserObjectCreate(&object, &one, destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuUserObjectCreate(&object, &one, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuUserObjectRelease(nullptr, 1), CUDA_ERROR_INVALID_VALUE);

  ASSERT_EQ(cuUserObjectCreate(&object, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
  ASSERT_EQ(cuUserObjectRetain(object, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuUserObjectRelease(object, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphRetainUserObject(graph_, object, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphReleaseUserObject(graph_, object, 1), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  EXPECT_TRUE(Eventually([] { return destroyed == 1; }));
  EXPECT_EQ(cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE) << "its handle ended with it";

  // Held by a clone in an executable graph at last.
  ASSERT_EQ(cuUserObjectCreate(&object, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  CUgraph parent;
  CUgraphNode child;
  ASSERT_EQ(cuGraphCreate(&parent, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  graph_ = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec_, parent, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(parent), CUDA_SUCCESS);
  Launch();
  EXPECT_EQ(destroyed, 1);
  ASSERT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  exec_ = nullptr;
  EXPECT_TRUE(Eventually([] { return destroyed == 2; }));
}

TEST_F(GraphNodeTest, LoopsAndBranches) {
  CUgraphConditionalHandle loop = 0, branch = 0;
  ASSERT_EQ(cuGraphConditionalHandleCreate(&loop, graph_, Ends().context(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphConditionalHandleCreate(&branch, graph_, Ends().context(), 2, CU_GRAPH_COND_ASSIGN_DEFAULT), CUDA_SUCCESS);
  CUgraphNode loop_node, branch_node, inner;
  CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_CONDITIONAL);
  params.conditional = {loop, CU_GRAPH_COND_TYPE_WHILE, 2, nullptr, Ends().context()};
  EXPECT_EQ(Add(&loop_node, {}, &params), CUDA_ERROR_INVALID_VALUE) << "a loop has one body";
  params.conditional.size = 1;
  ASSERT_EQ(Add(&loop_node, {}, &params), CUDA_SUCCESS);
  ASSERT_NE(params.conditional.phGraph_out, nullptr);
  const CUgraph body = params.conditional.phGraph_out[0];
  EXPECT_EQ(cuGraphNodeSetParams(loop_node, &params), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph clone;
  EXPECT_EQ(cuGraphClone(&clone, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE) << "it is the node's";
  CUgraphNodeParams kernel = KernelParams(nullptr);
  void* arguments[] = {&loop, &device_};
  kernel.kernel.func = countdown_;
  kernel.kernel.kernelParams = arguments;
  ASSERT_EQ(cuGraphAddNode(&inner, body, nullptr, nullptr, 0, &kernel), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_CONDITIONAL);
  params.conditional = {branch, CU_GRAPH_COND_TYPE_SWITCH, 3, nullptr, Ends().context()};
  ASSERT_EQ(Add(&branch_node, {loop_node}, &params), CUDA_SUCCESS);
  const std::vector<CUgraph> cases(params.conditional.phGraph_out, params.conditional.phGraph_out + 3);
  for (uint32_t i = 0; i < 3; ++i) {
    const CUDA_MEMSET_NODE_PARAMS set{device_ + 4 + 4 * i, 0, 100 + i, 4, 1, 1};
    ASSERT_EQ(cuGraphAddMemsetNode(&inner, cases[i], nullptr, 0, &set, Ends().context()), CUDA_SUCCESS);
  }
  CUgraphNodeType type;
  ASSERT_EQ(cuGraphNodeGetType(loop_node, &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
  Instantiate();
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(cuMemsetD32(device_, 7, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);  // stream_ does not wait for the legacy stream
    Launch();
    EXPECT_EQ(Word(0), 0u);
    EXPECT_EQ(Word(1), 0u);
    EXPECT_EQ(Word(3), 102u);
  }
  EXPECT_EQ(cuGraphDestroyNode(branch_node), CUDA_SUCCESS);
  size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(cases[0], nullptr, &count), CUDA_ERROR_INVALID_VALUE) << "bodies end with their node";
  EXPECT_EQ(cuGraphNodeGetType(inner, &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphNodeTest, InstantiationFlags) {
  uint32_t a = 4;
  void* arguments[] = {&device_, &a};
  CUgraphNodeParams params = KernelParams(arguments);
  CUgraphNode kernel;
  ASSERT_EQ(Add(&kernel, {}, &params), CUDA_SUCCESS);
  CUDA_GRAPH_INSTANTIATE_PARAMS with{};
  with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  with.hUploadStream = stream_;
  ASSERT_EQ(cuGraphInstantiateWithParams(&exec_, graph_, &with), CUDA_SUCCESS);
  EXPECT_EQ(with.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  EXPECT_EQ(with.hErrNode_out, nullptr);
  cuuint64_t flags = 0;
  ASSERT_EQ(cuGraphExecGetFlags(exec_, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, with.flags);
  ASSERT_EQ(cuGraphUpload(exec_, stream_), CUDA_SUCCESS);
  Launch();
  EXPECT_EQ(Word(0), 4u);
  CUgraphExec refused = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&refused, graph_, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&refused, graph_, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
            CUDA_ERROR_NOT_SUPPORTED) << "kernels would use the server's handle";
  with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  EXPECT_EQ(cuGraphInstantiateWithParams(&refused, graph_, &with), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(GraphNodeTest, DisabledNodesDoNothing) {
  uint32_t a = 4, host = 0;
  void* arguments[] = {&device_, &a};
  CUgraphNodeParams params = KernelParams(arguments);
  CUgraphNode kernel, copy, empty;
  ASSERT_EQ(Add(&kernel, {}, &params), CUDA_SUCCESS);
  params = CopyToHost(&host, 4);
  ASSERT_EQ(Add(&copy, {kernel}, &params), CUDA_SUCCESS);
  params = Of(CU_GRAPH_NODE_TYPE_EMPTY);
  ASSERT_EQ(Add(&empty, {}, &params), CUDA_SUCCESS);
  Instantiate();
  unsigned enabled = 7;
  ASSERT_EQ(cuGraphNodeGetEnabled(exec_, kernel, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 1u);
  ASSERT_EQ(cuGraphNodeGetEnabled(exec_, copy, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 1u);
  EXPECT_EQ(cuGraphNodeGetEnabled(exec_, empty, &enabled), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphNodeSetEnabled(exec_, empty, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphNodeSetEnabled(exec_, kernel, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeGetEnabled(exec_, kernel, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 0u);
  host = 9;
  Launch();
  EXPECT_EQ(host, 0u) << "the copy ran, the kernel did not";
  ASSERT_EQ(cuGraphNodeSetEnabled(exec_, kernel, 1), CUDA_SUCCESS);
  Launch();
  EXPECT_EQ(host, 4u);
}

}  // namespace
}  // namespace tessera
