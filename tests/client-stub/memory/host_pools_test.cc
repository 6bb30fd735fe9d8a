// Pools of host memory with both ends in one process, on the emulator: what the server's driver is told of them, and when. What a
// program sees is in tests/system/programs/host_pools.cu.
#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

std::atomic<int> registered;
std::atomic<bool> refuses{false};
DriverTable original;

void Count(DriverTable& driver) {
  original = driver;
  driver.cuMemHostRegister_v2 = [](void* memory, size_t bytes, unsigned flags) {
    if (refuses) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = original.cuMemHostRegister_v2(memory, bytes, flags);
    if (result == CUDA_SUCCESS) ++registered;
    return result;
  };
  driver.cuMemHostUnregister = [](void* memory) {
    const CUresult result = original.cuMemHostUnregister(memory);
    if (result == CUDA_SUCCESS) --registered;
    return result;
  };
}

class HostPoolsTest : public testing::Test {
 protected:
  void SetUp() override {
    static auto* const ends = new BothEnds(&Count);
    ends_ = ends;
    ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    before_ = registered;
    pool_ = Make();
  }
  void TearDown() override {
    EXPECT_EQ(cuMemPoolDestroy(pool_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(other_), CUDA_SUCCESS);
    EXPECT_TRUE(Becomes(before_)) << "the driver has memory that nobody has any more";
  }
  static CUmemoryPool Make() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    return pool;
  }
  CUdeviceptr Allocate(CUstream stream, size_t bytes = 4096) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocFromPoolAsync(&address, bytes, pool_, stream), CUDA_SUCCESS);
    return address;
  }
  // The server lets go on its own time.
  static bool Becomes(int count) {
    for (int tries = 0; tries < 400 && registered != count; ++tries) {
      cuCtxSynchronize();
      usleep(5000);
    }
    return registered == count;
  }
  uint64_t Attribute(CUmemPool_attribute attribute) {
    uint64_t value = ~uint64_t{0};
    EXPECT_EQ(cuMemPoolGetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  BothEnds* ends_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  int before_ = 0;
};

TEST_F(HostPoolsTest, TheDriverHasWhatAPoolHas) {
  const CUdeviceptr first = Allocate(stream_), second = Allocate(other_);
  EXPECT_EQ(registered, before_ + 1) << "both are in one piece";
  EXPECT_EQ(cuMemFreeAsync(first, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(registered, before_ + 1) << "the second block is in use";
  EXPECT_EQ(cuMemFree_v2(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_TRUE(Becomes(before_));
}

TEST_F(HostPoolsTest, AThresholdKeepsMemory) {
  uint64_t threshold = UINT64_MAX;
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(Allocate(stream_), stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(Allocate(other_), other_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(registered, before_ + 1);
  EXPECT_GT(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_TRUE(Becomes(before_));
}

TEST_F(HostPoolsTest, WhatTheDriverRefusesLeavesNothing) {
  refuses = true;
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&address, 4096, pool_, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  refuses = false;
  EXPECT_EQ(cuMemFree_v2(Allocate(stream_)), CUDA_SUCCESS);
}

TEST_F(HostPoolsTest, CapturesAreLeftAlone) {
  const CUdeviceptr older = Allocate(other_), left = Allocate(other_, size_t{64} << 20);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&none, 4096, pool_, stream_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemFreeAsync(older, stream_), CUDA_ERROR_INVALID_VALUE);
  // A pool grows and gives back beside it.
  const int had = registered;
  const CUdeviceptr grown = Allocate(other_, size_t{64} << 20);
  EXPECT_EQ(registered, had + 1);
  EXPECT_EQ(cuMemFreeAsync(grown, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(left, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  usleep(20000);  // the server has been asked, and has found the capture
  EXPECT_EQ(registered, had + 1);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  size_t nodes = 1;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 0u);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(older, other_), CUDA_SUCCESS);
}

// The driver lets go of nothing while work runs. What a program allocates and frees meanwhile must not add up.
TEST_F(HostPoolsTest, BesideWorkThatDoesNotEndPoolsKeepWhatTheyHave) {
  static std::atomic<bool> ends;
  ends = false;
  ASSERT_EQ(cuLaunchHostFunc(
                stream_,
                [](void*) {
                  while (!ends) usleep(100);
                },
                nullptr),
            CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    const CUdeviceptr address = Allocate(other_);
    EXPECT_EQ(cuMemFreeAsync(address, other_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  }
  EXPECT_LE(registered, before_ + 2);
  EXPECT_GE(registered, before_ + 1) << "the driver would have waited for the work";
  const CUdeviceptr behind = Allocate(stream_);
  EXPECT_EQ(cuMemFreeAsync(behind, stream_), CUDA_SUCCESS);
  const CUdeviceptr another = Allocate(other_);
  EXPECT_NE(another, behind) << "its stream is not there yet";
  EXPECT_EQ(Allocate(stream_), behind);
  ends = true;
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, behind + 1), CUDA_SUCCESS);
  EXPECT_EQ(base, behind);
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(cuMemFree_v2(behind), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(another), CUDA_SUCCESS);
}

TEST_F(HostPoolsTest, MemoryEndsWithTheContextInWhichThePoolGrew) {
  CUcontext another = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&another, 0, 0), CUDA_SUCCESS);
  CUstream its_stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&its_stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const CUdeviceptr gone = Allocate(its_stream);
  EXPECT_EQ(cuMemsetD8_v2(gone, 1, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(another), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(ends_->context()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(gone, 1, 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(gone, stream_), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr here = Allocate(stream_);
  EXPECT_EQ(cuMemsetD8_v2(here, 1, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(here, stream_), CUDA_SUCCESS);
}

TEST_F(HostPoolsTest, OtherCallsDoNotTakeThem) {
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, host{CU_MEM_LOCATION_TYPE_HOST, 0};
  EXPECT_EQ(cuDeviceSetMemPool(0, pool_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool_), CUDA_SUCCESS);
  CUmemoryPool current = nullptr;
  EXPECT_EQ(cuMemGetMemPool(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
  EXPECT_EQ(current, pool_);
  int fd = -1;
  EXPECT_EQ(cuMemPoolExportToShareableHandle(&fd, pool_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_ERROR_INVALID_VALUE)
      << "not made for it";
  const CUdeviceptr address = Allocate(stream_);
  CUmemPoolPtrExportData pointer;
  EXPECT_EQ(cuMemPoolExportPointer(&pointer, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(address)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(reinterpret_cast<void*>(address)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(reinterpret_cast<void*>(address), 4096, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = host;
  parameters.bytesize = 4096;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  CUmemPoolProps managed{};
  managed.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  CUmemoryPool none = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&none, &managed), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace tessera
