// Copies of ordinary host memory as nodes of graphs, with both ends in one process: read and written at each launch.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/client-stub/graphs/graph_node_fixture.h"

namespace tessera {
namespace {

class GraphCopyTest : public GraphNodeTest {};

TEST_F(GraphCopyTest, CopiesOfOrdinaryMemoryReadAndWriteItAtEachLaunch) {
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

TEST_F(GraphCopyTest, CapturedCopiesOfOrdinaryMemory) {
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

TEST_F(GraphCopyTest, RowsOfOrdinaryMemory) {
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

}  // namespace
}  // namespace tessera
