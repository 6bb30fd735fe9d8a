// Graphs that kernels launch in a process with two servers: their handles are what the drivers say, which may be anything: the
// same for both, or what looks like a handle of something else. The second server's driver says here what the test wants.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "client-stub/graphs/device_graphs.h"
#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/two_servers.h"

namespace tessera {
namespace {

constexpr unsigned long long kDeviceLaunch = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;

// The second driver's next handle of a device graph; 0: the emulator's own. One thread of the server at a time looks here.
uint64_t next_value = 0;
DriverTable own;
std::map<uint64_t, CUgraphExec> said;  // what it said in place of the emulator's

CUgraphExec Real(CUgraphExec exec) {
  const auto found = said.find(reinterpret_cast<uint64_t>(exec));
  return found == said.end() ? exec : found->second;
}

CUresult InstantiateAs(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const CUresult result = own.cuGraphInstantiateWithFlags(exec, graph, flags);
  if (result != CUDA_SUCCESS || next_value == 0 || (flags & kDeviceLaunch) == 0) return result;
  said[next_value] = *exec;
  *exec = reinterpret_cast<CUgraphExec>(next_value);
  next_value = 0;
  return result;
}

void SayOtherValues(DriverTable& driver) {
  own = driver;
  driver.cuGraphInstantiateWithFlags = InstantiateAs;
  driver.cuGraphLaunch = [](CUgraphExec exec, CUstream stream) { return own.cuGraphLaunch(Real(exec), stream); };
  driver.cuGraphExecDestroy = [](CUgraphExec exec) {
    const CUresult result = own.cuGraphExecDestroy(Real(exec));
    said.erase(reinterpret_cast<uint64_t>(exec));
    return result;
  };
}

// A graph that sets the first word of some memory.
struct Graph {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr memory = 0;

  Graph(CUcontext context, unsigned value) {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32_v2(memory, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);  // the streams do not wait for the legacy one
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = memory;
    set.value = value;
    set.elementSize = 4;
    set.width = set.height = 1;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context), CUDA_SUCCESS);
  }
  CUresult Instantiate(unsigned long long flags = kDeviceLaunch) { return cuGraphInstantiateWithFlags(&exec, graph, flags); }
  uint64_t handle() const { return reinterpret_cast<uint64_t>(exec); }
  unsigned Word() const {
    unsigned word = 0;
    EXPECT_EQ(cuMemcpyDtoH_v2(&word, memory, 4), CUDA_SUCCESS);
    return word;
  }
  void Launch(CUstream stream, unsigned value) const {
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(Word(), value);
  }
};

class DeviceGraphServers : public testing::Test {
 protected:
  DeviceGraphServers() {
    TwoServersInProcess::Start(SayOtherValues);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[i], i), CUDA_SUCCESS);
      Use(i);
      EXPECT_EQ(cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
  }
  ~DeviceGraphServers() override {
    cuCtxSetCurrent(nullptr);
    for (int i = 0; i < 2; ++i) cuDevicePrimaryCtxRelease(i);
  }
  void Use(int device) { EXPECT_EQ(cuCtxSetCurrent(contexts_[device]), CUDA_SUCCESS); }

  CUcontext contexts_[2] = {};
  CUstream streams_[2] = {};
};

TEST_F(DeviceGraphServers, CallsGoToTheServerOfTheGraph) {
  Graph second(contexts_[1], 22);
  next_value = 0x7F0000001000;
  ASSERT_EQ(second.Instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(second.handle(), 0x7F0000001000u);
  Use(0);
  cuuint64_t flags = 0;
  second.Launch(streams_[1], 22);
  EXPECT_EQ(cuGraphLaunch(second.exec, streams_[0]), CUDA_ERROR_INVALID_HANDLE) << "a stream of another server";
  EXPECT_EQ(cuGraphExecDestroy(second.exec), CUDA_SUCCESS);
  EXPECT_TRUE(said.empty());
  EXPECT_FALSE(DeviceGraphs::Process().Has(second.exec));
  EXPECT_EQ(cuGraphExecGetFlags(second.exec, &flags), CUDA_ERROR_INVALID_VALUE);
}

// Both emulators begin with the same value.
TEST_F(DeviceGraphServers, TheSameValueOfTwoServersIsRefused) {
  Graph first(contexts_[0], 11), second(contexts_[1], 22);
  Use(0);
  ASSERT_EQ(first.Instantiate(), CUDA_SUCCESS);
  Use(1);
  EXPECT_EQ(second.Instantiate(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(second.exec, nullptr);
  first.Launch(streams_[0], 11);
  EXPECT_EQ(second.Word(), 0u);
  Use(0);
  EXPECT_EQ(cuGraphExecDestroy(first.exec), CUDA_SUCCESS);
  Use(1);
  ASSERT_EQ(second.Instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(second.exec, first.exec) << "what was refused was destroyed, so the value is free again";
  second.Launch(streams_[1], 22);
  EXPECT_EQ(cuGraphExecDestroy(second.exec), CUDA_SUCCESS);
}

TEST_F(DeviceGraphServers, AValueIsFreeWhenTheContextHasEnded) {
  CUcontext ended = nullptr;
  ASSERT_EQ(cuCtxCreate_v4(&ended, nullptr, 0, 0), CUDA_SUCCESS);
  Graph first(ended, 11), second(contexts_[1], 22);
  ASSERT_EQ(cuCtxSetCurrent(ended), CUDA_SUCCESS);
  ASSERT_EQ(first.Instantiate(), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(ended), CUDA_SUCCESS);
  Use(1);
  ASSERT_EQ(second.Instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(second.exec, first.exec);
  second.Launch(streams_[1], 22);
  EXPECT_EQ(cuGraphExecDestroy(second.exec), CUDA_SUCCESS);
}

// A value of the second driver that is a handle of the first server's.
TEST_F(DeviceGraphServers, AValueThatLooksLikeAHandleOfAnotherSession) {
  Graph plain(contexts_[0], 11), second(contexts_[1], 22);
  Use(0);
  ASSERT_EQ(plain.Instantiate(0), CUDA_SUCCESS);
  // Of an executable graph: no call could tell the two apart.
  Use(1);
  next_value = plain.handle();
  EXPECT_EQ(second.Instantiate(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(said.empty());
  plain.Launch(streams_[0], 11);
  EXPECT_EQ(second.Word(), 0u);
  // Of anything else, or of a graph that has ended: nothing is mistaken for it.
  EXPECT_EQ(cuGraphExecDestroy(plain.exec), CUDA_SUCCESS);
  for (const uint64_t value : {reinterpret_cast<uint64_t>(streams_[0]), plain.handle()}) {
    Use(1);
    next_value = value;
    ASSERT_EQ(second.Instantiate(), CUDA_SUCCESS);
    EXPECT_EQ(second.handle(), value);
    Use(0);
    second.Launch(streams_[1], 22);
    EXPECT_EQ(cuStreamQuery(streams_[0]), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(second.exec), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(streams_[0]), CUDA_SUCCESS) << "it was the graph that ended";
  }
}

// The other way round: the value was there first.
TEST_F(DeviceGraphServers, AnIdIsNeverMintedThatADeviceGraphHas) {
  Graph one(contexts_[0], 11), second(contexts_[1], 22), next(contexts_[0], 33);
  Use(0);
  ASSERT_EQ(one.Instantiate(0), CUDA_SUCCESS);
  const HandleId last(one.handle());
  Use(1);
  next_value =
      HandleId::Of(last.session(), last.kind(), last.generation(), last.slot() + 1).value();  // the next id of the first session
  const uint64_t value = next_value;
  ASSERT_EQ(second.Instantiate(), CUDA_SUCCESS);
  Use(0);
  ASSERT_EQ(next.Instantiate(0), CUDA_SUCCESS);
  EXPECT_EQ(second.handle(), value);
  EXPECT_EQ(HandleId(next.handle()).slot(), last.slot() + 2) << "it would have been the same";
  next.Launch(streams_[0], 33);
  second.Launch(streams_[1], 22);
  for (const Graph* graph : {&one, &second, &next}) EXPECT_EQ(cuGraphExecDestroy(graph->exec), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
