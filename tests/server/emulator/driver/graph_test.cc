#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class GraphTest : public DriverTest {
 protected:
  CUgraph Graph() {
    CUgraph graph = nullptr;
    EXPECT_CU(cu(GraphCreate)(&graph, 0));
    return graph;
  }
  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cu(GraphInstantiateWithFlags)(&exec, graph, 0));
    return exec;
  }
  CUgraphNode AddSet(CUgraph graph, CUdeviceptr to, unsigned value, std::vector<CUgraphNode> after = {}) {
    CUgraphNode node = nullptr;
    const CUDA_MEMSET_NODE_PARAMS params{to, 0, value, 4, 1, 1};
    EXPECT_CU(cu(GraphAddMemsetNode)(&node, graph, after.data(), after.size(), &params, context_));
    return node;
  }
  CUgraphNode AddAddOne(CUgraph graph, CUdeviceptr to, std::vector<CUgraphNode> after = {}) {
    CUDA_KERNEL_NODE_PARAMS params{};
    int count = 1;
    void* arguments[] = {&to, &count};
    params.func = Function("add_one");
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    CUgraphNode node = nullptr;
    EXPECT_CU(cu(GraphAddKernelNode_v2)(&node, graph, after.data(), after.size(), &params));
    return node;
  }
  void Run(CUgraphExec exec) {
    EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
    EXPECT_CU(cu(StreamSynchronize)(nullptr));
  }
};

TEST_F(GraphTest, EdgesAreTheOrder) {
  const CUdeviceptr memory = Allocate(4);
  const CUgraph graph = Graph();
  const CUgraphNode set = AddSet(graph, memory, 10);
  const CUgraphNode add = AddAddOne(graph, memory, {set});
  AddAddOne(graph, memory, {add});
  size_t count = 0;
  EXPECT_CU(cu(GraphGetRootNodes)(graph, nullptr, &count));
  EXPECT_EQ(1u, count);
  EXPECT_CU(cu(GraphNodeGetDependentNodes)(set, nullptr, &count));
  EXPECT_EQ(1u, count);
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU(cu(GraphDestroy)(graph));
  for (int i = 0; i < 20; ++i) {
    Run(exec);
    ASSERT_EQ(12, ReadOne(memory));
  }
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  if (Emulated()) {
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphLaunch)(exec, nullptr));
  }
}

TEST_F(GraphTest, CyclesAreRefused) {
  const CUdeviceptr memory = Allocate(4);
  const CUgraph graph = Graph();
  const CUgraphNode a = AddSet(graph, memory, 1), b = AddSet(graph, memory, 2, {a});
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddDependencies)(graph, &a, &b, 1));  // is there already
  EXPECT_CU(cu(GraphAddDependencies)(graph, &b, &a, 1));
  CUgraphExec exec = nullptr;
  EXPECT_NE(CUDA_SUCCESS, cu(GraphInstantiateWithFlags)(&exec, graph, 0));
  EXPECT_CU(cu(GraphRemoveDependencies)(graph, &b, &a, 1));
  EXPECT_CU(cu(GraphInstantiateWithFlags)(&exec, graph, 0));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(GraphTest, PageableSourceIsReadAtEachLaunch) {
  const CUdeviceptr memory = Allocate(4);
  int source = 1;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = &source;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  const CUgraph graph = Graph();
  CUgraphNode node = nullptr;
  ASSERT_CU(cu(GraphAddMemcpyNode)(&node, graph, nullptr, 0, &copy, context_));
  const CUgraphExec exec = Instantiate(graph);
  for (source = 5; source < 8; ++source) {
    Run(exec);
    EXPECT_EQ(source, ReadOne(memory));
  }
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(GraphTest, NodesOfAnExecutableGraphChange) {
  const CUdeviceptr memory = Allocate(8);
  Write(memory, {0, 0});
  const CUgraph graph = Graph();
  const CUgraphNode set = AddSet(graph, memory, 1);
  const CUgraphExec exec = Instantiate(graph);
  const CUDA_MEMSET_NODE_PARAMS other{memory + 4, 0, 9, 4, 1, 1};
  EXPECT_CU(cu(GraphExecMemsetNodeSetParams)(exec, set, &other, context_));
  Run(exec);
  EXPECT_EQ((std::vector<int>{0, 9}), Read(memory, 2));
  EXPECT_CU(cu(GraphNodeSetEnabled)(exec, set, 0));
  Write(memory, {0, 0});
  Run(exec);
  EXPECT_EQ((std::vector<int>{0, 0}), Read(memory, 2));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(GraphTest, UpdateTakesEqualShapesOnly) {
  const CUdeviceptr memory = Allocate(4);
  const CUgraph graph = Graph(), same = Graph(), larger = Graph(), typed = Graph();
  AddSet(graph, memory, 1);
  AddSet(same, memory, 2);
  AddSet(larger, memory, 3);
  AddSet(larger, memory, 4);
  AddAddOne(typed, memory);
  const CUgraphExec exec = Instantiate(graph);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_CU(cu(GraphExecUpdate_v2)(exec, same, &info));
  Run(exec);
  EXPECT_EQ(2, ReadOne(memory));
  EXPECT_EQ(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu(GraphExecUpdate_v2)(exec, larger, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  EXPECT_EQ(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu(GraphExecUpdate_v2)(exec, typed, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, info.result);
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  for (CUgraph each : {graph, same, larger, typed}) EXPECT_CU(cu(GraphDestroy)(each));
}

TEST_F(GraphTest, KernelParametersReadBack) {
  const CUdeviceptr memory = Allocate(4);
  const CUgraph graph = Graph();
  const CUgraphNode node = AddAddOne(graph, memory);
  CUDA_KERNEL_NODE_PARAMS params{};
  EXPECT_CU(cu(GraphKernelNodeGetParams_v2)(node, &params));
  EXPECT_EQ(32u, params.blockDimX);
  EXPECT_EQ(Function("add_one"), params.func);
  EXPECT_EQ(memory, *static_cast<CUdeviceptr*>(params.kernelParams[0]));
  EXPECT_EQ(1, *static_cast<int*>(params.kernelParams[1]));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(GraphTest, ChildGraphsAreCopies) {
  const CUdeviceptr memory = Allocate(4);
  const CUgraph inner = Graph(), outer = Graph();
  AddAddOne(inner, memory);
  const CUgraphNode set = AddSet(outer, memory, 1);
  CUgraphNode first = nullptr, second = nullptr;
  EXPECT_CU(cu(GraphAddChildGraphNode)(&first, outer, &set, 1, inner));
  EXPECT_CU(cu(GraphAddChildGraphNode)(&second, outer, &first, 1, inner));
  AddAddOne(inner, memory);  // comes too late for the copies
  EXPECT_CU(cu(GraphDestroy)(inner));
  const CUgraphExec exec = Instantiate(outer);
  Run(exec);
  EXPECT_EQ(3, ReadOne(memory));
  CUgraph clone = nullptr;
  EXPECT_CU(cu(GraphClone)(&clone, outer));
  CUgraphNode found = nullptr;
  EXPECT_CU(cu(GraphNodeFindInClone)(&found, set, clone));
  EXPECT_NE(set, found);
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(clone));
  EXPECT_CU(cu(GraphDestroy)(outer));
}

TEST_F(GraphTest, HostAndEventNodes) {
  int calls = 0;
  const CUgraph graph = Graph();
  const CUDA_HOST_NODE_PARAMS host{[](void* data) { ++*static_cast<int*>(data); }, &calls};
  CUgraphNode call = nullptr, record = nullptr;
  EXPECT_CU(cu(GraphAddHostNode)(&call, graph, nullptr, 0, &host));
  const CUevent event = Event();
  EXPECT_CU(cu(GraphAddEventRecordNode)(&record, graph, &call, 1, event));
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
  EXPECT_CU(cu(EventSynchronize)(event));
  EXPECT_EQ(1, calls);
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(GraphTest, UserObjectsDieWithTheLastHolder) {
  int destroyed = 0;
  CUuserObject object = nullptr;
  ASSERT_CU(cu(UserObjectCreate)(
      &object, &destroyed, [](void* data) { ++*static_cast<int*>(data); }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  const CUgraph graph = Graph();
  EXPECT_CU(cu(GraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU(cu(GraphDestroy)(graph));
  EXPECT_EQ(0, destroyed);
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(CtxSynchronize)());
  if (Emulated()) {
    EXPECT_EQ(1, destroyed);
  }
}

TEST_F(GraphTest, UserObjectsOfAnEmbeddedGraphLiveAsLongAsALaunch) {
  std::atomic<int> destroyed{0}, go{0};
  CUuserObject object = nullptr;
  ASSERT_CU(cu(UserObjectCreate)(
      &object, &destroyed, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  const CUgraph inside = Graph();
  CUgraphNode node = nullptr;
  CUDA_HOST_NODE_PARAMS wait{[](void* data) {
                               while (*static_cast<std::atomic<int>*>(data) == 0) sched_yield();
                             },
                             &go};
  ASSERT_CU(cu(GraphAddHostNode)(&node, inside, nullptr, 0, &wait));
  EXPECT_CU(cu(GraphRetainUserObject)(inside, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraph graph = Graph();
  ASSERT_CU(cu(GraphAddChildGraphNode)(&node, graph, nullptr, 0, inside));
  EXPECT_CU(cu(GraphDestroy)(inside));
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU(cu(GraphDestroy)(graph));
  EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_EQ(0, destroyed);
  go = 1;
  EXPECT_CU(cu(CtxSynchronize)());
  if (Emulated()) {
    EXPECT_EQ(1, destroyed);
  }
}

}  // namespace
}  // namespace tessera
