// Sets in an instance of a graph, with a driver that takes no other context than that of the node, as driver 580 does for memory
// that is mapped: the program gives any context, since natively its memory's counts.
#include <cuda.h>
#include <gtest/gtest.h>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

DriverTable original;
CUcontext of_node;

void TakeOneContext(DriverTable& driver) {
  original = driver;
  driver.cuGraphAddMemsetNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   const CUDA_MEMSET_NODE_PARAMS* set, CUcontext context) {
    of_node = context;
    return original.cuGraphAddMemsetNode(node, graph, dependencies, count, set, context);
  };
  driver.cuGraphExecMemsetNodeSetParams = [](CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* set,
                                             CUcontext context) {
    if (context != of_node) return CUDA_ERROR_INVALID_VALUE;
    return original.cuGraphExecMemsetNodeSetParams(exec, node, set, context);
  };
}

TEST(MemsetContextTest, AnyContextWillDo) {
  static auto* const ends = new BothEnds(&TakeOneContext);
  ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS set{memory, 0, 1, 1, 64, 1};
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, ends->context()), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  set.value = 2;
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, node, &set, other), CUDA_SUCCESS);
  set.dst = memory + 64;
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, node, &set, other), CUDA_ERROR_INVALID_VALUE) << "not the program's";
  EXPECT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  unsigned char value = 0;
  EXPECT_EQ(cuMemcpyDtoH_v2(&value, memory, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
