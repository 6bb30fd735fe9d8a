// Small copies of pinned memory behind work of other streams that writes it, with both ends in one process, on the emulator. It
// does what driver 580 does (server/worker/implicit_order.h): it reads the source in the call if the stream itself has no
// unfinished work.
#include <cuda.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

constexpr unsigned char kOld = 0xee;
constexpr unsigned char kNew = 0x5a;

// Who writes the pinned memory, and who reads it.
struct Order {
  std::string name;
  bool default_writes;  // and a stream that waits for the default stream reads; else the other way round
};

class SmallSourceTest : public testing::TestWithParam<Order> {
 protected:
  static constexpr size_t kBytes = 4096;

  void SetUp() override {
    Ends();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&device_, kBytes), CUDA_SUCCESS);
    void* memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, kBytes, 0), CUDA_SUCCESS);
    pinned_ = static_cast<unsigned char*>(memory);
    std::memset(pinned_, kOld, kBytes);
    ASSERT_EQ(cuMemsetD8_v2(device_, 0, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(pinned_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  }
  CUstream writer() const { return GetParam().default_writes ? CU_STREAM_LEGACY : stream_; }
  CUstream reader() const { return GetParam().default_writes ? stream_ : CU_STREAM_LEGACY; }

  // The writer fills the pinned memory once it is let go on, which is after `copy` has been called.
  void WriteThen(const std::function<CUresult()>& copy) {
    Gate gate(writer());
    const auto fill = [](void* memory) { std::memset(memory, kNew, kBytes); };
    ASSERT_EQ(cuLaunchHostFunc(writer(), fill, pinned_), CUDA_SUCCESS);
    ASSERT_EQ(copy(), CUDA_SUCCESS);
    // The server has given the copy to its driver: it answers in order.
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ASSERT_EQ(cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
    gate.Open();
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    ExpectNew();
  }
  void ExpectNew() {
    std::vector<unsigned char> copied(kBytes);
    ASSERT_EQ(cuMemcpyDtoH_v2(copied.data(), device_, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(copied, std::vector<unsigned char>(kBytes, kNew));
  }

  CUstream stream_ = nullptr;
  CUdeviceptr device_ = 0;
  unsigned char* pinned_ = nullptr;
};

TEST_P(SmallSourceTest, IsReadBehindWhatWritesIt) {
  WriteThen([&] { return cuMemcpyHtoDAsync_v2(device_, pinned_, kBytes, reader()); });
}

TEST_P(SmallSourceTest, OfABoxIsReadBehindWhatWritesIt) {
  WriteThen([&] {
    CUDA_MEMCPY2D box{};
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = pinned_;
    box.srcPitch = kBytes / 4;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = device_;
    box.dstPitch = kBytes / 4;
    box.WidthInBytes = kBytes / 4;
    box.Height = 4;
    return cuMemcpy2DAsync_v2(&box, reader());
  });
}

// Only the default stream has synchronous forms, but for a thread whose default stream is its own.
TEST_P(SmallSourceTest, IsReadBehindWhatWritesItBySynchronousForms) {
  Gate gate(writer());
  const auto fill = [](void* memory) { std::memset(memory, kNew, kBytes); };
  ASSERT_EQ(cuLaunchHostFunc(writer(), fill, pinned_), CUDA_SUCCESS);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.Open();
  });
  EXPECT_EQ(
      GetParam().default_writes ? cuMemcpyHtoD_v2_ptds(device_, pinned_, kBytes) : cuMemcpyHtoD_v2(device_, pinned_, kBytes),
      CUDA_SUCCESS);
  opener.join();
  ExpectNew();
}

// What the server asks the driver about a stream would end its capture.
TEST_P(SmallSourceTest, IsANodeOfACapture) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device_, pinned_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  std::memset(pinned_, kNew, kBytes);
  ASSERT_EQ(cuGraphLaunch(exec, reader()), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ExpectNew();
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Streams, SmallSourceTest,
                         testing::Values(Order{"BehindTheDefaultStream", true}, Order{"OfTheDefaultStream", false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera
