// Nodes of every kind with both ends in one process: parameters in and out, results, error codes; user objects. Copies of
// ordinary memory are in graph_copy_test.cc; allocation nodes need two processes: tests/system/programs/graph_memory.cu.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/graphs/graph_node_fixture.h"

namespace tessera {
namespace {

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

  const std::pair<CUgraphNode, CUgraphNodeType> kinds[] = {{empty, CU_GRAPH_NODE_TYPE_EMPTY},
                                                           {kernel, CU_GRAPH_NODE_TYPE_KERNEL},
                                                           {memset, CU_GRAPH_NODE_TYPE_MEMSET},
                                                           {operations, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
                                                           {child, CU_GRAPH_NODE_TYPE_GRAPH},
                                                           {wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT},
                                                           {record, CU_GRAPH_NODE_TYPE_EVENT_RECORD},
                                                           {copy, CU_GRAPH_NODE_TYPE_MEMCPY},
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
