// Memory of graphs: who may allocate and free what when, and what the device says of it.
#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class GraphMemoryTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    EXPECT_CU(cu(GraphCreate)(&graph_, 0));
  }
  void TearDown() override {
    EXPECT_CU(cu(DeviceGraphMemTrim)(device_));  // what graphs have reserved stays with the device otherwise
    DriverTest::TearDown();
  }
  static CUDA_MEM_ALLOC_NODE_PARAMS Params(size_t bytes) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = bytes;
    return params;
  }
  // An allocation node and a set behind it; the memory's address.
  CUdeviceptr AddAllocation(CUgraphNode* set) {
    CUgraphNode alloc = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS params = Params(4096);
    EXPECT_CU(cu(GraphAddMemAllocNode)(&alloc, graph_, nullptr, 0, &params));
    const CUDA_MEMSET_NODE_PARAMS fill{params.dptr, 0, 5, 4, 1024, 1};
    EXPECT_CU(cu(GraphAddMemsetNode)(set, graph_, &alloc, 1, &fill, context_));
    return params.dptr;
  }
  CUgraphExec Instantiate(unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cu(GraphInstantiateWithFlags)(&exec, graph_, flags));
    return exec;
  }
  uint64_t Attribute(CUgraphMem_attribute attribute) {
    uint64_t value = ~uint64_t{0};
    EXPECT_CU(cu(DeviceGetGraphMemAttribute)(device_, attribute, &value));
    return value;
  }
  unsigned Known(CUdeviceptr address) {
    unsigned type = 0;
    return cu(PointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS ? type : 0;
  }

  CUgraph graph_ = nullptr;
};

TEST_F(GraphMemoryTest, LivesFromItsNodeToItsFree) {
  CUgraphNode set;
  const CUdeviceptr memory = AddAllocation(&set);
  EXPECT_EQ(0u, Known(memory));
  const CUgraphExec exec = Instantiate();
  CUgraphExec second = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphInstantiateWithFlags)(&second, graph_, 0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphLaunch)(exec, nullptr)) << "it is allocated still";
    EXPECT_CU(cu(StreamSynchronize)(nullptr));
    EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_DEVICE), Known(memory));
    EXPECT_EQ(5, ReadOne(memory + 4092));
    EXPECT_GE(Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4096u);
    EXPECT_CU(i == 0 ? cu(MemFree_v2)(memory) : cu(MemFreeAsync)(memory, nullptr));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFreeAsync)(memory, nullptr));
  }
  EXPECT_CU(cu(StreamSynchronize)(nullptr));
  EXPECT_EQ(0u, Known(memory));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphInstantiateWithFlags)(&second, graph_, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  for (int i = 0; i < 3; ++i) EXPECT_CU(cu(GraphLaunch)(second, nullptr));
  EXPECT_CU(cu(GraphExecDestroy)(second));
  EXPECT_CU(cu(GraphDestroy)(graph_));
  EXPECT_EQ(5, ReadOne(memory)) << "memory outlives its graph";
  EXPECT_CU(cu(MemFree_v2)(memory));
  if (!Emulated()) return;
  EXPECT_EQ(0u, Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  EXPECT_EQ(4096u, Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_CU(cu(DeviceGraphMemTrim)(device_));
  EXPECT_EQ(0u, Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
}

TEST_F(GraphMemoryTest, FreeNodes) {
  CUgraphNode set, free_node = nullptr, refused;
  const CUdeviceptr plain = Allocate(64), memory = AddAllocation(&set);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddMemFreeNode)(&refused, graph_, &set, 1, plain));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddMemFreeNode)(&refused, graph_, &set, 1, memory + 16));
  EXPECT_CU(cu(GraphAddMemFreeNode)(&free_node, graph_, &set, 1, memory));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddMemFreeNode)(&refused, graph_, &set, 1, memory));
  CUdeviceptr freed = 0;
  EXPECT_CU(cu(GraphMemFreeNodeGetParams)(free_node, &freed));
  EXPECT_EQ(memory, freed);
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphDestroyNode)(set));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphRemoveDependencies)(graph_, &set, &free_node, 1));
  CUgraph other = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphClone)(&other, graph_));
  EXPECT_CU(cu(GraphCreate)(&other, 0));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphAddChildGraphNode)(&refused, other, nullptr, 0, graph_));
  const CUgraphExec exec = Instantiate();
  for (int i = 0; i < 3; ++i) EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
  EXPECT_CU(cu(StreamSynchronize)(nullptr));
  // A graph that frees what nobody has allocated.
  EXPECT_CU(cu(GraphAddMemFreeNode)(&refused, other, nullptr, 0, memory));
  CUgraphExec frees = nullptr;
  EXPECT_CU(cu(GraphInstantiateWithFlags)(&frees, other, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphLaunch)(frees, nullptr));
  EXPECT_CU(cu(GraphExecDestroy)(frees));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(other));
  EXPECT_CU(cu(GraphDestroy)(graph_));
}

TEST_F(GraphMemoryTest, RefusedAllocations) {
  CUgraphNode node;
  CUDA_MEM_ALLOC_NODE_PARAMS params = Params(0);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddMemAllocNode)(&node, graph_, nullptr, 0, &params));
  params = Params(64);
  params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(GraphAddMemAllocNode)(&node, graph_, nullptr, 0, &params));
  params = Params(64);
  params.poolProps.location.id = 99;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GraphAddMemAllocNode)(&node, graph_, nullptr, 0, &params));
  params = Params(size_t{1} << 50);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(GraphAddMemAllocNode)(&node, graph_, nullptr, 0, &params));
  uint64_t value = 5;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(DeviceSetGraphMemAttribute)(device_, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  value = 0;
  EXPECT_CU(cu(DeviceSetGraphMemAttribute)(device_, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(DeviceSetGraphMemAttribute)(device_, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cu(DeviceGetGraphMemAttribute)(99, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  EXPECT_CU(cu(GraphDestroy)(graph_));
}

TEST_F(GraphMemoryTest, CapturedAllocations) {
  const CUstream stream = Stream();
  const CUdeviceptr plain = Allocate(64);
  CUdeviceptr memory = 0;
  EXPECT_CU(cu(GraphDestroy)(graph_));
  EXPECT_CU(cu(StreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cu(MemAllocAsync)(&memory, 4096, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFreeAsync)(plain, stream)) << "not memory of a graph; the capture goes on";
  EXPECT_CU(cu(MemsetD32Async)(memory, 8, 1024, stream));
  EXPECT_CU(cu(MemcpyDtoDAsync_v2)(plain, memory, 4, stream));
  EXPECT_CU(cu(MemFreeAsync)(memory, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFreeAsync)(memory, stream));
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph_));
  const CUgraphExec exec = Instantiate();
  for (int i = 0; i < 2; ++i) {
    Write(plain, {0});
    EXPECT_CU(cu(GraphLaunch)(exec, stream));
    EXPECT_CU(cu(StreamSynchronize)(stream));
    EXPECT_EQ(8, ReadOne(plain));
  }
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph_));
  EXPECT_CU(cu(StreamDestroy_v2)(stream));
}

// A branch of the graph that touches the memory without waiting for its allocation.
TEST_F(GraphMemoryTest, AnAccessOutsideItsLifeFaults) {
  if (!Emulated()) GTEST_SKIP();
  CUgraphNode set, free_node, late;
  const CUdeviceptr memory = AddAllocation(&set);
  EXPECT_CU(cu(GraphAddMemFreeNode)(&free_node, graph_, &set, 1, memory));
  const CUDA_MEMSET_NODE_PARAMS fill{memory, 0, 6, 4, 1, 1};
  EXPECT_CU(cu(GraphAddMemsetNode)(&late, graph_, &free_node, 1, &fill, context_));
  const CUgraphExec exec = Instantiate();
  EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cu(StreamSynchronize)(nullptr));
  ContextHasFailed();
}

}  // namespace
}  // namespace tessera
