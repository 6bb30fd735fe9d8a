// TESSERA_EMULATOR_SLOW: copies, sets and kernels take time of their stream before they touch memory. An emulated device's own.
#include <chrono>
#include <cstdlib>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr size_t kSecond = 1'000'000;  // bytes of a copy that takes so long at 1 MB/s
constexpr size_t kInts = kSecond / sizeof(int);

class SlowTest : public DriverTest {
 protected:
  static void SetUpTestSuite() { setenv("TESSERA_EMULATOR_SLOW", "1", 0); }
  void SetUp() override {
    if (!Emulated()) GTEST_SKIP();
    DriverTest::SetUp();
  }
  void Begin() { begin_ = std::chrono::steady_clock::now(); }
  std::chrono::steady_clock::duration Took() const { return std::chrono::steady_clock::now() - begin_; }
  // Of one byte in all of the bytes.
  CUdeviceptr Filled(unsigned char value, size_t bytes) {
    const CUdeviceptr memory = Allocate(bytes);
    EXPECT_CU(cu(MemsetD8Async)(memory, value, bytes, CU_STREAM_LEGACY));
    EXPECT_CU(cu(CtxSynchronize)());
    return memory;
  }

 private:
  std::chrono::steady_clock::time_point begin_;
};

TEST_F(SlowTest, ACopyWritesAtTheEndOfItsTime) {
  const CUdeviceptr memory = Filled(7, kSecond);
  int* to = Pinned(kInts);
  to[0] = to[kInts - 1] = 1;
  const CUstream stream = Stream();
  Begin();
  EXPECT_CU(cu(MemcpyDtoHAsync_v2)(to, memory, kSecond, stream));
  EXPECT_EQ(1, to[0]);
  EXPECT_EQ(1, to[kInts - 1]);
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_GE(Took(), milliseconds(1000));
  EXPECT_EQ(0x07070707, to[0]);
  EXPECT_EQ(0x07070707, to[kInts - 1]);
}

TEST_F(SlowTest, ACopyReadsPinnedMemoryAtTheEndOfItsTime) {
  const CUdeviceptr memory = Allocate(kSecond);
  int* from = Pinned(kInts);
  from[0] = 1;
  const CUstream stream = Stream();
  EXPECT_CU(cu(MemcpyHtoDAsync_v2)(memory, from, kSecond, stream));
  from[0] = 2;
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(2, ReadOne(memory));
}

TEST_F(SlowTest, ACopyReadsPageableMemoryAtTheCall) {
  const CUdeviceptr memory = Allocate(kSecond);
  std::vector<int> from(kInts, 1);
  const CUstream stream = Stream();
  EXPECT_CU(cu(MemcpyHtoDAsync_v2)(memory, from.data(), kSecond, stream));
  from[0] = 2;
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(stream));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(1, ReadOne(memory));
}

TEST_F(SlowTest, ASynchronousCopyWaitsForBlockingStreams) {
  const CUdeviceptr from = Filled(7, kSecond), to = Filled(0, 4);
  int* between = Pinned(kInts);
  between[0] = 1;
  EXPECT_CU(cu(MemcpyDtoHAsync_v2)(between, from, kSecond, Stream(CU_STREAM_DEFAULT)));
  EXPECT_CU(cu(MemcpyHtoD_v2)(to, between, 4));
  EXPECT_EQ(0x07070707, ReadOne(to));
}

TEST_F(SlowTest, BlockingStreamsWaitForTheLegacyStream) {
  const CUdeviceptr from = Filled(7, kSecond), to = Filled(0, kSecond);
  const CUstream stream = Stream(CU_STREAM_DEFAULT);
  int* between = Pinned(kInts);
  between[0] = 1;
  EXPECT_CU(cu(MemcpyDtoHAsync_v2)(between, from, kSecond, CU_STREAM_LEGACY));
  EXPECT_CU(cu(MemcpyHtoDAsync_v2)(to, between, kSecond, stream));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(0x07070707, ReadOne(to));
}

// As driver 580 does: only the stream's own work keeps it from reading early (copy.h).
TEST_F(SlowTest, ASmallAsynchronousCopyReadsPinnedMemoryAtTheCallWhereItsStreamIsIdle) {
  const size_t limit = 24'576;
  const CUdeviceptr from = Filled(7, kSecond), to = Filled(0, limit + 1);
  int* between = Pinned(kInts);
  const CUstream stream = Stream(CU_STREAM_DEFAULT);
  const auto chain = [&](size_t bytes, bool busy) {
    between[0] = 1;
    EXPECT_CU(cu(MemcpyDtoHAsync_v2)(between, from, kSecond, stream));
    if (busy) {
      EXPECT_CU(cu(MemsetD8Async)(to, 0, 4, CU_STREAM_LEGACY));
    }
    EXPECT_CU(cu(MemcpyHtoDAsync_v2)(to, between, bytes, CU_STREAM_LEGACY));
    EXPECT_CU(cu(StreamSynchronize)(CU_STREAM_LEGACY));
    return ReadOne(to);
  };
  EXPECT_EQ(1, chain(limit, false));
  EXPECT_EQ(0x07070707, chain(limit + 1, false));
  EXPECT_EQ(0x07070707, chain(limit, true));
}

TEST_F(SlowTest, NonBlockingStreamsTakeTheirTimeBesideOthers) {
  const CUdeviceptr memory = Allocate(3 * kSecond), other = Filled(7, 4);
  const CUstream stream = Stream();
  EXPECT_CU(cu(MemsetD8Async)(memory, 1, 3 * kSecond, stream));
  EXPECT_EQ(0x07070707, ReadOne(other));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(stream));
  EXPECT_CU(cu(StreamSynchronize)(stream));
}

TEST_F(SlowTest, EveryKernelTakesAMillisecond) {
  const CUdeviceptr memory = Filled(0, 4);
  const CUstream stream = Stream();
  EXPECT_CU(Launch("store", 1, 1, stream, memory, 1));  // loaded
  EXPECT_CU(cu(StreamSynchronize)(stream));
  Begin();
  for (int i = 0; i < 50; ++i) EXPECT_CU(Launch("store", 1, 1, stream, memory, i));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_GE(Took(), milliseconds(50));
  EXPECT_EQ(49, ReadOne(memory));
}

TEST_F(SlowTest, SoDoNodesOfGraphs) {
  const CUdeviceptr memory = Filled(0, kSecond);
  const CUstream stream = Stream();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_CU(cu(StreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(cu(MemsetD8Async)(memory, 7, kSecond / 2, stream));
  EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
  EXPECT_CU(cu(GraphInstantiateWithFlags)(&exec, graph, 0));
  Begin();
  EXPECT_CU(cu(GraphLaunch)(exec, stream));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_GE(Took(), milliseconds(500));
  EXPECT_EQ(0x07070707, ReadOne(memory));
  EXPECT_CU(cu(GraphExecDestroy)(exec));
  EXPECT_CU(cu(GraphDestroy)(graph));
}

TEST_F(SlowTest, AnErrorOfItsContextEndsIt) {
  const size_t bytes = 120 * kSecond;
  const CUdeviceptr memory = Allocate(bytes);
  Begin();
  EXPECT_CU(cu(MemsetD8Async)(memory, 1, bytes, Stream()));
  EXPECT_CU(Launch("trap_now", 1, 1, Stream()));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu(CtxSynchronize)());
  EXPECT_LT(Took(), std::chrono::seconds(60));
  ContextHasFailed();
}

}  // namespace
}  // namespace tessera
