#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using PoolTest = DriverTest;

TEST_F(PoolTest, AllocationAndFreeFollowTheStream) {
  const CUstream stream = Stream();
  int* back = Pinned(1);
  for (int i = 0; i < 30; ++i) {
    CUdeviceptr memory = 0;
    ASSERT_CU(cu(MemAllocAsync)(&memory, 4096, stream));
    EXPECT_CU(cu(MemsetD32Async)(memory, static_cast<unsigned>(i), 1, stream));
    EXPECT_CU(cu(MemcpyDtoHAsync_v2)(back, memory, 4, stream));
    EXPECT_CU(cu(MemFreeAsync)(memory, stream));
    if (Emulated()) {
      EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFreeAsync)(memory, stream));
    }
    EXPECT_CU(cu(StreamSynchronize)(stream));
    ASSERT_EQ(i, *back);
  }
}

TEST_F(PoolTest, CountersFollow) {
  if (!Emulated()) GTEST_SKIP();
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  ASSERT_CU(cu(MemPoolCreate)(&pool, &properties));
  cuuint64_t threshold = UINT64_MAX, used = 0, reserved = 0;
  EXPECT_CU(cu(MemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  CUdeviceptr memory = 0;
  EXPECT_CU(cu(MemAllocFromPoolAsync)(&memory, 1 << 20, pool, nullptr));
  EXPECT_CU(cu(MemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(1u << 20, used);
  EXPECT_CU(cu(MemFreeAsync)(memory, nullptr));
  EXPECT_CU(cu(StreamSynchronize)(nullptr));
  EXPECT_CU(cu(MemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_CU(cu(MemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_EQ(0u, used);
  EXPECT_EQ(1u << 20, reserved);
  EXPECT_CU(cu(MemPoolTrimTo)(pool, 0));
  EXPECT_CU(cu(MemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_EQ(0u, reserved);
  EXPECT_CU(cu(MemPoolDestroy)(pool));
  CUmemoryPool standard = nullptr, current = nullptr;
  EXPECT_CU(cu(DeviceGetDefaultMemPool)(&standard, device_));
  EXPECT_CU(cu(DeviceGetMemPool)(&current, device_));
  EXPECT_EQ(standard, current);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemPoolDestroy)(standard));
}

TEST_F(PoolTest, UseAfterTheFreeFaults) {
  if (!Emulated()) GTEST_SKIP();
  const CUstream stream = Stream();
  CUdeviceptr memory = 0;
  ASSERT_CU(cu(MemAllocAsync)(&memory, 4096, stream));
  EXPECT_CU(cu(MemFreeAsync)(memory, stream));
  EXPECT_CU(Launch("store", 1, 1, stream, memory, 1));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cu(StreamSynchronize)(stream));
  ContextHasFailed();
}

}  // namespace
}  // namespace tessera
