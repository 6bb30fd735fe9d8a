// Copies of memory that only the client has, with both ends in one process, on the emulator: what streams, captures and
// graphs make of registered and ordinary host memory, and that nothing is left behind.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "client-stub/streams/host_functions.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

CUdeviceptr Number(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// Visits that the client still keeps.
size_t VisitsKept() {
  size_t kept = 0;
  HostFunction function;
  for (uint64_t number = 1; number < 50'000; ++number) {
    kept += HostFunctionsOfProcess().Find(number, &function) && function.visit != nullptr;
  }
  return kept;
}

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class HostCopyTest : public testing::Test {
 protected:
  static constexpr size_t kInts = 1500;
  static constexpr size_t kBytes = kInts * sizeof(int);

  void SetUp() override {
    Ends();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&device_, kBytes), CUDA_SUCCESS);
    void* memory = mmap(nullptr, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    registered_ = static_cast<int*>(memory);
    ASSERT_EQ(cuMemHostRegister(registered_, kBytes, 0), CUDA_SUCCESS);
    open_ = false;
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostUnregister(registered_), CUDA_SUCCESS);
    munmap(registered_, 4 * 4096);
    EXPECT_EQ(cuMemFree(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  void CloseGate() {
    ASSERT_EQ(cuLaunchHostFunc(
                  stream_,
                  [](void* open) {
                    while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
                  },
                  &open_),
              CUDA_SUCCESS);
  }
  CUgraph Capture(const std::function<void()>& work) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    work();
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    return graph;
  }
  CUDA_MEMCPY3D Row(CUmemorytype from_type, const void* from, CUmemorytype to_type, void* to) {
    CUDA_MEMCPY3D row{};
    row.srcMemoryType = from_type;
    row.srcHost = from;
    row.srcDevice = Number(from);
    row.dstMemoryType = to_type;
    row.dstHost = to;
    row.dstDevice = Number(to);
    row.WidthInBytes = kBytes;
    row.Height = row.Depth = 1;
    return row;
  }
  void* device() const { return reinterpret_cast<void*>(device_); }

  CUstream stream_ = nullptr;
  CUdeviceptr device_ = 0;
  int* registered_ = nullptr;
  std::atomic<bool> open_{false};
};

TEST_F(HostCopyTest, RegisteredMemoryIsReadAndWrittenWhenTheStreamGetsThere) {
  registered_[9] = 1;
  CloseGate();
  ASSERT_EQ(cuMemcpyHtoDAsync(device_, registered_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(registered_ + 700, device_, 16 * sizeof(int), stream_), CUDA_SUCCESS);
  registered_[9] = 2;
  EXPECT_EQ(registered_[709], 0);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  open_ = true;
  while (cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  EXPECT_EQ(registered_[709], 2);
}

TEST_F(HostCopyTest, VisitsOfStreamsLeaveNothingBehind) {
  const size_t before = VisitsKept();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(cuMemcpyHtoDAsync(device_, registered_, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync(registered_, device_, kBytes, stream_), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(VisitsKept(), before);
}

// The driver runs the host functions of a context one after the other: a copy must not need one.
TEST_F(HostCopyTest, AHostFunctionMayWaitForACopyOfAnotherStream) {
  struct Wait {
    std::atomic<bool> runs{false};
    volatile int* word;
    bool came = false;
    // While the copy may be writing it, which ThreadSanitizer would report.
    __attribute__((no_sanitize("thread"))) int Word() const { return *word; }
  } wait;
  wait.word = registered_ + 5;
  const int there = 77;
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(device_, &there, sizeof(there)), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                other,
                [](void* data) {
                  auto& wait = *static_cast<Wait*>(data);
                  wait.runs = true;
                  wait.came = Eventually([&] { return wait.Word() == 77; });
                },
                &wait),
            CUDA_SUCCESS);
  ASSERT_TRUE(Eventually([&] { return wait.runs.load(); }));
  ASSERT_EQ(cuMemcpyDtoHAsync(registered_ + 5, device_, sizeof(int), stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_TRUE(wait.came);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

// More visits outstanding than a driver's queue takes launches, in streams of all kinds.
TEST_F(HostCopyTest, ManyCopiesMayBeOutstandingInManyStreams) {
  constexpr int kStreams = 8, kCopies = 40;
  uint32_t* gate = nullptr;
  ASSERT_EQ(cuMemAllocHost(reinterpret_cast<void**>(&gate), sizeof(*gate)), CUDA_SUCCESS);
  *gate = 0;
  std::vector<CUstream> streams(kStreams);
  for (CUstream& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  streams.push_back(CU_STREAM_PER_THREAD);
  streams.push_back(CU_STREAM_LEGACY);
  for (size_t i = 0; i < kInts; ++i) registered_[i] = static_cast<int>(i);
  const size_t before = VisitsKept();
  for (CUstream stream : streams) {
    ASSERT_EQ(cuStreamWaitValue32(stream, Number(gate), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  }
  // Each stream hands its own row of numbers on, from word to word of its part of the memory.
  for (int copy = 0; copy < kCopies; ++copy) {
    for (size_t k = 0; k < streams.size(); ++k) {
      const size_t at = k * 100 + static_cast<size_t>(copy) * 2;
      const CUdeviceptr to = device_ + at * sizeof(int);
      ASSERT_EQ(cuMemcpyHtoDAsync(to, registered_ + at, 2 * sizeof(int), streams[k]), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyDtoHAsync(registered_ + at + 2, to, 2 * sizeof(int), streams[k]), CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(registered_[2], 2);
  __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  for (size_t k = 0; k < streams.size(); ++k) {
    for (size_t i = 0; i < 2 * kCopies + 2; ++i) {
      EXPECT_EQ(registered_[k * 100 + i], static_cast<int>(k * 100 + i % 2)) << k << " " << i;
    }
  }
  EXPECT_EQ(VisitsKept(), before);
  for (int i = 0; i < kStreams; ++i) EXPECT_EQ(cuStreamDestroy(streams[static_cast<size_t>(i)]), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeHost(gate), CUDA_SUCCESS);
}

TEST_F(HostCopyTest, CapturedCopiesLookAsTheyDoNatively) {
  std::vector<int> from(kInts, 4), to(kInts);
  const CUgraph graph = Capture([&] {
    EXPECT_EQ(cuMemcpyHtoDAsync(device_, from.data(), kBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(to.data(), device_, kBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyAsync(Number(to.data()), Number(from.data()), 4, stream_), CUDA_SUCCESS);
  });
  CUgraphNode nodes[4] = {};
  size_t count = 4;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 3u);
  const CUmemorytype types[3][2] = {{CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
                                    {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
                                    {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED}};
  for (size_t i = 0; i < count; ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_EQ(cuGraphNodeGetType(nodes[i], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    CUDA_MEMCPY3D params{};
    ASSERT_EQ(cuGraphMemcpyNodeGetParams(nodes[i], &params), CUDA_SUCCESS);
    EXPECT_EQ(params.srcMemoryType, types[i][0]);
    EXPECT_EQ(params.dstMemoryType, types[i][1]);
    EXPECT_EQ(params.srcPitch, 0u);
    EXPECT_EQ(params.WidthInBytes, i == 2 ? 4 : kBytes);
    if (i == 0) {
      EXPECT_EQ(params.srcHost, from.data());
    }
    if (i == 1) {
      EXPECT_EQ(params.dstHost, to.data());
    }
    if (i == 2) {
      EXPECT_EQ(params.srcDevice, Number(from.data()));
    }
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(HostCopyTest, ShadowsGoWithTheLastGraphOrInstance) {
  const size_t before = VisitsKept();
  std::vector<int> from(kInts, 4);
  const CUgraph graph = Capture([&] { EXPECT_EQ(cuMemcpyHtoDAsync(device_, from.data(), kBytes, stream_), CUDA_SUCCESS); });
  EXPECT_EQ(VisitsKept(), before + 1);
  CUgraph clone = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, clone, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(clone), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(VisitsKept(), before + 1);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_TRUE(Eventually([&] { return VisitsKept() == before; }));
  int value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, device_, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 4);
}

TEST_F(HostCopyTest, LaunchesOfRegisteredMemoryDoNotWait) {
  const CUgraph graph = Capture([&] { EXPECT_EQ(cuMemcpyHtoDAsync(device_, registered_, kBytes, stream_), CUDA_SUCCESS); });
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  registered_[0] = 1;
  CloseGate();
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  registered_[0] = 2;
  open_ = true;
  int value = 0;
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(&value, device_, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

// Natively a launch reads ordinary memory and returns, whatever launches of another instance are held back.
TEST_F(HostCopyTest, LaunchesOfTwoInstancesDoNotWaitForEachOther) {
  const size_t before = VisitsKept();
  std::vector<int> plain(kInts, 1);
  uint32_t* gate = nullptr;
  CUstream other = nullptr;
  ASSERT_EQ(cuMemAllocHost(reinterpret_cast<void**>(&gate), sizeof(*gate)), CUDA_SUCCESS);
  *gate = 0;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphNode up = nullptr;
  CUgraphExec first = nullptr, second = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMCPY3D row = Row(CU_MEMORYTYPE_HOST, plain.data(), CU_MEMORYTYPE_DEVICE, device());
  ASSERT_EQ(cuGraphAddMemcpyNode(&up, graph, nullptr, 0, &row, Ends().context()), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&first, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_SUCCESS);
  const auto value = [&] {
    int value = 0;
    EXPECT_EQ(cuMemcpyDtoHAsync(&value, device_ + 4 * (kInts - 1), 4, other), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
    return value;
  };
  for (int round = 0; round < 5; ++round) {
    __atomic_store_n(gate, 0, __ATOMIC_RELEASE);
    ASSERT_EQ(cuStreamWaitValue32(stream_, Number(gate), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    plain.assign(kInts, 10 * round + 1);
    ASSERT_EQ(cuGraphLaunch(first, stream_), CUDA_SUCCESS);
    plain.assign(kInts, 10 * round + 2);
    ASSERT_EQ(cuGraphLaunch(second, other), CUDA_SUCCESS);
    plain.assign(kInts, 10 * round + 3);
    ASSERT_EQ(cuGraphLaunch(first, stream_), CUDA_SUCCESS);
    plain.assign(kInts, -1);
    EXPECT_EQ(value(), 10 * round + 2);
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(value(), 10 * round + 3);
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(second), CUDA_SUCCESS);
  EXPECT_TRUE(Eventually([&] { return VisitsKept() == before; }));
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(gate), CUDA_SUCCESS);
}

TEST_F(HostCopyTest, ANodeKeepsItsForm) {
  const size_t before = VisitsKept();
  std::vector<int> plain(kInts, 6);
  int* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), kBytes, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphNode up = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMCPY3D row = Row(CU_MEMORYTYPE_HOST, plain.data(), CU_MEMORYTYPE_DEVICE, device());
  ASSERT_EQ(cuGraphAddMemcpyNode(&up, graph, nullptr, 0, &row, Ends().context()), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  row = Row(CU_MEMORYTYPE_HOST, pinned, CU_MEMORYTYPE_DEVICE, device());
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, up, &row, Ends().context()), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphMemcpyNodeSetParams(up, &row), CUDA_ERROR_NOT_SUPPORTED);
  row = Row(CU_MEMORYTYPE_DEVICE, device(), CU_MEMORYTYPE_HOST, plain.data());
  EXPECT_EQ(cuGraphMemcpyNodeSetParams(up, &row), CUDA_ERROR_NOT_SUPPORTED);
  row = Row(CU_MEMORYTYPE_HOST, registered_, CU_MEMORYTYPE_DEVICE, device());
  registered_[3] = 33;
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, up, &row, Ends().context()), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(plain.data(), device_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(plain[3], 33);
  // The node itself still says what it said; a wrong call leaves nothing behind.
  CUDA_MEMCPY3D params{};
  EXPECT_EQ(cuGraphMemcpyNodeGetParams(up, &params), CUDA_SUCCESS);
  EXPECT_EQ(params.srcHost, plain.data());
  CUgraphNode none = nullptr;
  row.srcPitch = 1;
  EXPECT_EQ(cuGraphAddMemcpyNode(&none, graph, nullptr, 0, &row, Ends().context()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_TRUE(Eventually([&] { return VisitsKept() == before; }));
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(HostCopyTest, TheOlderBatchSaysWhichCopyIsWrong) {
  CUresult (*batch)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, size_t*, CUstream) =
      nullptr;
  CUdriverProcAddressQueryResult found{};
  ASSERT_EQ(cuGetProcAddress("cuMemcpyBatchAsync", reinterpret_cast<void**>(&batch), 12080, CU_GET_PROC_ADDRESS_DEFAULT, &found),
            CUDA_SUCCESS);
  ASSERT_NE(batch, nullptr);
  CUdeviceptr to[] = {device_, device_ + 64, device_ + 128};
  CUdeviceptr from[] = {Number(registered_), Number(registered_), Number(registered_)};
  size_t sizes[] = {64, 64, 0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0, failed = 99;
  EXPECT_EQ(batch(to, from, sizes, 3, &attributes, &first, 1, &failed, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 2u);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT_EQ(batch(to, from, sizes, 2, &attributes, &first, 1, &failed, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, SIZE_MAX);
}

}  // namespace
}  // namespace tessera
