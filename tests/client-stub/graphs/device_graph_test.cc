// Graphs that kernels launch, and kernel nodes that kernels change, as the host sees them: with the driver's own handles. What
// the emulator answers was measured (driver 580.159.04 on an H200). Kernels that do it: tests/system/programs/device_graphs.cu.
// Two servers: device_graph_servers_test.cc.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "protocol/wire/handle.h"
#include "tests/client-stub/gate.h"
#include "tests/client-stub/graphs/graph_node_fixture.h"

namespace tessera {
namespace {

constexpr unsigned long long kDeviceLaunch = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;

class DeviceGraphTest : public GraphNodeTest {
 protected:
  // A node of graph_ that writes `value` to the first word.
  CUgraphNode AddSet(uint32_t value) {
    void* arguments[] = {&device_, &value};
    CUgraphNodeParams params = KernelParams(arguments);
    CUgraphNode node = nullptr;
    EXPECT_EQ(Add(&node, {}, &params), CUDA_SUCCESS);
    return node;
  }
  CUgraphExec InstantiateForKernels(unsigned long long flags = kDeviceLaunch) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, flags), CUDA_SUCCESS);
    return exec;
  }
  void ExpectLaunchWrites(CUgraphExec exec, uint32_t value) {
    ASSERT_EQ(cuMemsetD32(device_, 0, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(Word(0), value);
  }
  // Calls `destroy` behind work that does not end. The driver waits for the GPU, and so does the caller; nobody else.
  template <typename Destroy>
  void ExpectAWaitOfTheCallerAlone(Destroy destroy) {
    std::atomic<bool> destroyed{false};
    Gate gate(stream_);
    std::thread destroyer([&] {
      EXPECT_EQ(cuCtxSetCurrent(Ends().context()), CUDA_SUCCESS);
      EXPECT_EQ(destroy(), CUDA_SUCCESS);
      destroyed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Word(1);
    EXPECT_FALSE(destroyed);
    gate.Open();
    destroyer.join();
  }
  // Instantiation for kernels refuses graph_, at `node` where the driver names one.
  void ExpectRefused(CUresult result, CUgraphInstantiateResult why, CUgraphNode node) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, kDeviceLaunch), result);
    CUDA_GRAPH_INSTANTIATE_PARAMS with{};
    with.flags = kDeviceLaunch;
    EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph_, &with), result);
    EXPECT_EQ(with.result_out, why);
    EXPECT_EQ(with.hErrNode_out, node);
    EXPECT_EQ(exec, nullptr);
  }
};

TEST_F(DeviceGraphTest, TheHandleIsTheDrivers) {
  AddSet(7);
  CUgraphExec plain = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&plain, graph_, 0), CUDA_SUCCESS);
  EXPECT_EQ(HandleId(reinterpret_cast<uint64_t>(plain)).kind(), HandleKind::kGraphExec);
  const CUgraphExec exec = InstantiateForKernels();
  EXPECT_NE(HandleId(reinterpret_cast<uint64_t>(exec)).kind(), HandleKind::kGraphExec);
  cuuint64_t flags = 0;
  EXPECT_EQ(cuGraphExecGetFlags(exec, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, kDeviceLaunch);
  EXPECT_EQ(cuGraphUpload(exec, stream_), CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) ExpectLaunchWrites(exec, 7);
  CUDA_GRAPH_INSTANTIATE_PARAMS with{};
  with.flags = kDeviceLaunch | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  with.hUploadStream = stream_;
  CUgraphExec other = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithParams(&other, graph_, &with), CUDA_SUCCESS);
  EXPECT_EQ(with.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  EXPECT_NE(other, exec);
  ExpectLaunchWrites(other, 7);
  for (CUgraphExec one : {plain, exec, other}) EXPECT_EQ(cuGraphExecDestroy(one), CUDA_SUCCESS);
  for (CUgraphExec one : {plain, exec, other}) {
    EXPECT_EQ(cuGraphLaunch(one, stream_), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphExecDestroy(one), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(DeviceGraphTest, FlagsAreTheDriversToRefuse) {
  AddSet(7);
  CUgraphExec exec = nullptr;
  for (const unsigned long long with : {CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD}) {
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, kDeviceLaunch | with), CUDA_ERROR_INVALID_VALUE);
  }
  exec = InstantiateForKernels(kDeviceLaunch | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// The driver gives the value again at once.
TEST_F(DeviceGraphTest, AValueThatComesAgainIsTheNewGraphs) {
  AddSet(7);
  const CUgraphExec first = InstantiateForKernels();
  ExpectLaunchWrites(first, 7);
  ASSERT_EQ(cuGraphExecDestroy(first), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  AddSet(8);
  const CUgraphExec second = InstantiateForKernels();
  EXPECT_EQ(second, first);
  ExpectLaunchWrites(second, 8);
  EXPECT_EQ(cuGraphExecDestroy(second), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(second), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceGraphTest, NodesOfAnInstanceChange) {
  const CUgraphNode node = AddSet(7);
  const CUgraphExec exec = InstantiateForKernels();
  ExpectLaunchWrites(exec, 7);
  uint32_t value = 9;
  void* arguments[] = {&device_, &value};
  CUgraphNodeParams params = KernelParams(arguments);
  EXPECT_EQ(cuGraphExecNodeSetParams(exec, node, &params), CUDA_SUCCESS);
  ExpectLaunchWrites(exec, 9);
  EXPECT_EQ(cuGraphNodeSetEnabled(exec, node, 0), CUDA_SUCCESS);
  unsigned enabled = 1;
  EXPECT_EQ(cuGraphNodeGetEnabled(exec, node, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 0u);
  ExpectLaunchWrites(exec, 0);
  EXPECT_EQ(cuGraphNodeSetEnabled(exec, node, 1), CUDA_SUCCESS);
  value = 10;
  ASSERT_EQ(cuGraphNodeSetParams(node, &params), CUDA_SUCCESS);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate(exec, graph_, &info), CUDA_SUCCESS);
  ExpectLaunchWrites(exec, 10);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(DeviceGraphTest, WhatKernelsCannotLaunchIsRefused) {
  ExpectRefused(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr);  // empty
  CUgraphNode node = nullptr;
  CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_EMPTY);
  ASSERT_EQ(Add(&node, {}, &params), CUDA_SUCCESS);
  ExpectRefused(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node);
}

TEST_F(DeviceGraphTest, CopiesOfOrdinaryMemoryAreRefusedAsNatively) {
  uint32_t word = 0;
  CUgraphNode node = nullptr;
  CUgraphNodeParams params = CopyToHost(&word, sizeof(word));
  ASSERT_EQ(Add(&node, {AddSet(7)}, &params), CUDA_SUCCESS);
  ExpectRefused(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node);
  // Launched by the host it is an ordinary graph.
  Instantiate();
  Launch();
  EXPECT_EQ(word, 7u);
}

// Natively the driver copies registered memory by itself; here a host function would have to.
TEST_F(DeviceGraphTest, CopiesOfRegisteredMemoryAreRefused) {
  constexpr size_t kPage = 4096;
  auto* const page = static_cast<uint32_t*>(std::aligned_alloc(kPage, kPage));
  ASSERT_EQ(cuMemHostRegister(page, kPage, 0), CUDA_SUCCESS);
  CUgraphNode node = nullptr, outer = nullptr;
  CUgraphNodeParams params = CopyToHost(page, 4);
  ASSERT_EQ(Add(&node, {}, &params), CUDA_SUCCESS);
  ExpectRefused(CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node);
  // Embedded in another graph it is a copy of the node.
  CUgraph around = nullptr;
  ASSERT_EQ(cuGraphCreate(&around, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddChildGraphNode(&outer, around, nullptr, 0, graph_), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, around, kDeviceLaunch), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroy(around), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(page), CUDA_SUCCESS);
  std::free(page);
}

TEST_F(DeviceGraphTest, ItEndsWithItsContext) {
  CUcontext own = nullptr;
  CUctxCreateParams how{};
  ASSERT_EQ(cuCtxCreate(&own, &how, 0, 0), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = memory;
  set.elementSize = 4;
  set.width = 4;
  set.height = 1;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &set, own), CUDA_SUCCESS);
  const CUgraphExec exec = InstantiateForKernels();
  ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(Ends().context()), CUDA_SUCCESS);
  cuuint64_t flags = 0;
  EXPECT_EQ(cuGraphExecGetFlags(exec, &flags), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  AddSet(5);
  const CUgraphExec next = InstantiateForKernels();
  EXPECT_EQ(next, exec) << "the driver gives the value again";
  ExpectLaunchWrites(next, 5);
  EXPECT_EQ(cuGraphExecDestroy(next), CUDA_SUCCESS);
}

TEST_F(DeviceGraphTest, NobodyElseWaitsWhileOneIsDestroyed) {
  AddSet(7);
  const CUgraphExec exec = InstantiateForKernels();
  ExpectAWaitOfTheCallerAlone([&] { return cuGraphExecDestroy(exec); });
}

TEST_F(DeviceGraphTest, AnInstanceIsGivenNoCopyOfOrdinaryMemory) {
  uint32_t word = 0;
  CUgraphNodeParams params = Of(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyCtx = Ends().context();
  params.memcpy.copyParams = Row(4);
  params.memcpy.copyParams.srcMemoryType = params.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.memcpy.copyParams.srcDevice = device_ + 64;
  params.memcpy.copyParams.dstDevice = device_;
  CUgraphNode node = nullptr;
  ASSERT_EQ(Add(&node, {}, &params), CUDA_SUCCESS);
  const CUgraphExec exec = InstantiateForKernels();
  const CUDA_MEMCPY3D copy = ToHost(&word, 4);
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, Ends().context()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
class DeviceNodeTest : public DeviceGraphTest {
 protected:
  static constexpr CUlaunchAttributeID kUpdatable = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
  // A launch with the attribute, which is left in value_.
  CUresult LaunchUpdatable(int updatable, CUgraphDeviceNode given = nullptr) {
    uint32_t value = 7;
    void* arguments[] = {&device_, &value};
    CUlaunchAttribute attribute{};
    attribute.id = kUpdatable;
    attribute.value.deviceUpdatableKernelNode = {updatable, given};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream_;
    config.attrs = &attribute;
    config.numAttrs = 1;
    const CUresult result = cuLaunchKernelEx(&config, set_, arguments, nullptr);
    value_ = attribute.value;
    return result;
  }
  // Replaces graph_ by one of a node that kernels change.
  CUgraphNode Capture() {
    EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    EXPECT_EQ(LaunchUpdatable(1), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
    CUgraphNode node = nullptr;
    size_t count = 1;
    EXPECT_EQ(cuGraphGetNodes(graph_, &node, &count), CUDA_SUCCESS);
    return node;
  }
  CUresult Set(CUgraphNode node, int updatable, CUgraphDeviceNode given = nullptr) {
    value_ = {};
    value_.deviceUpdatableKernelNode = {updatable, given};
    return cuGraphKernelNodeSetAttribute(node, kUpdatable, &value_);
  }
  CUgraphDeviceNode device_node() const { return value_.deviceUpdatableKernelNode.devNode; }

  CUkernelNodeAttrValue value_{};
};

TEST_F(DeviceNodeTest, ACapturedLaunchHandsOutItsNode) {
  EXPECT_EQ(LaunchUpdatable(1), CUDA_ERROR_NOT_SUPPORTED) << "no node";
  EXPECT_EQ(LaunchUpdatable(0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(device_node(), nullptr);
  const CUgraphNode node = Capture();
  const CUgraphDeviceNode made = device_node();
  EXPECT_NE(made, nullptr);
  CUkernelNodeAttrValue read{};
  EXPECT_EQ(cuGraphKernelNodeGetAttribute(node, kUpdatable, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.deviceUpdatableKernelNode.deviceUpdatable, 1);
  EXPECT_EQ(read.deviceUpdatableKernelNode.devNode, made);
  // Two launches that are alike have a node each.
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(LaunchUpdatable(1), CUDA_SUCCESS);
  const CUgraphDeviceNode second = device_node();
  EXPECT_EQ(LaunchUpdatable(1), CUDA_SUCCESS);
  EXPECT_NE(device_node(), second);
  EXPECT_NE(second, made);
  EXPECT_EQ(LaunchUpdatable(0), CUDA_SUCCESS);
  EXPECT_EQ(device_node(), nullptr);
  EXPECT_EQ(LaunchUpdatable(2), CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  cuStreamEndCapture(stream_, &graph);
  if (graph != nullptr) {
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  }
}

TEST_F(DeviceNodeTest, TheAttributeIsSetOnce) {
  const CUgraphNode node = AddSet(7);
  EXPECT_EQ(cuGraphKernelNodeGetAttribute(node, kUpdatable, &value_), CUDA_SUCCESS);
  EXPECT_EQ(value_.deviceUpdatableKernelNode.deviceUpdatable, 0);
  EXPECT_EQ(device_node(), nullptr);
  EXPECT_EQ(Set(node, 0), CUDA_SUCCESS);
  EXPECT_EQ(Set(node, 2), CUDA_ERROR_INVALID_VALUE);
  const auto given = reinterpret_cast<CUgraphDeviceNode>(0x77);
  EXPECT_EQ(Set(node, 1, given), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(device_node(), given);
  EXPECT_EQ(Set(node, 1), CUDA_SUCCESS);
  const CUgraphDeviceNode made = device_node();
  EXPECT_NE(made, nullptr) << "an output, though CUDA declares it constant";
  EXPECT_EQ(Set(node, 1), CUDA_SUCCESS);
  EXPECT_EQ(device_node(), made);
  EXPECT_EQ(Set(node, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(DeviceNodeTest, WhatCannotBeDoneWithSuchNodes) {
  const CUgraphNode node = Capture();
  CUgraph other = nullptr;
  EXPECT_EQ(cuGraphClone(&other, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroyNode(node), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(cuGraphCreate(&other, 0), CUDA_SUCCESS);
  CUgraphNode embedded = nullptr, plain = nullptr;
  EXPECT_EQ(cuGraphAddChildGraphNode(&embedded, other, nullptr, 0, graph_), CUDA_SUCCESS);
  uint32_t value = 3;
  void* arguments[] = {&device_, &value};
  CUgraphNodeParams params = KernelParams(arguments);
  ASSERT_EQ(cuGraphAddNode(&plain, other, nullptr, nullptr, 0, &params), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphKernelNodeCopyAttributes(plain, node), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphKernelNodeCopyAttributes(node, plain), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphNodeSetParams(node, &params), CUDA_SUCCESS);
  Instantiate();
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph_, kDeviceLaunch), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate(exec_, graph_, &info), CUDA_ERROR_NOT_SUPPORTED);
  ExpectLaunchWrites(exec_, 3);
  // Its instance is gone: another one may be made, for kernels too.
  ASSERT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  exec_ = InstantiateForKernels();
  ExpectLaunchWrites(exec_, 3);
  EXPECT_EQ(cuGraphDestroy(other), CUDA_SUCCESS);
}

TEST_F(DeviceNodeTest, NobodyElseWaitsWhileTheyAreDestroyed) {
  Capture();
  Instantiate();
  ExpectAWaitOfTheCallerAlone([&] { return cuGraphExecDestroy(exec_); });
  exec_ = nullptr;
  ExpectAWaitOfTheCallerAlone([&] { return cuGraphDestroy(graph_); });
  graph_ = nullptr;
}

}  // namespace
}  // namespace tessera
