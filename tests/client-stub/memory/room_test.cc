// Allocations for which the device has no memory until others give theirs back, with both ends in one process.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "generated/driver_table.h"
#include "server/worker/room_maker.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

std::atomic<bool> full;      // whether the driver has no memory
std::atomic<bool> has_room;  // whether others can do without theirs
std::atomic<int> asked, awaited;
std::atomic<uint64_t> spare_bytes;  // that others can do without

class Rooms : public RoomMaker {
 public:
  bool MakeRoom() override {
    ++asked;
    if (has_room) full = false;
    return has_room;
  }
  uint64_t AwaitEnds(const GpuUuid& gpu) override {
    ++awaited;
    return gpu == GpuUuid{} ? 0 : spare_bytes.load();
  }
};

DriverTable original;

// The driver's function, which fails while it is full.
template <auto kFunction, typename... Parameters>
CUresult UnlessFull(Parameters... parameters) {
  return full ? CUDA_ERROR_OUT_OF_MEMORY : (original.*kFunction)(parameters...);
}
template <auto kFunction, typename... Parameters>
void Limit(DriverTable& driver, CUresult (*DriverTable::*)(Parameters...)) {
  driver.*kFunction = &UnlessFull<kFunction, Parameters...>;
}

void MayBeFull(DriverTable& driver) {
  original = driver;
#define LIMIT(name) Limit<&DriverTable::name>(driver, &DriverTable::name)
  LIMIT(cuMemCreate);
  LIMIT(cuArrayCreate_v2);
  LIMIT(cuArray3DCreate_v2);
  LIMIT(cuMipmappedArrayCreate);
  LIMIT(cuCtxCreate_v2);
#undef LIMIT
  // Memory of the emulator's pools is this process' own, where the client wants device memory to be nobody's.
  static std::atomic<CUdeviceptr> next{0x10'0000'0000};
  driver.cuMemAllocAsync = [](CUdeviceptr* memory, size_t, CUstream) {
    if (!full) *memory = next.fetch_add(2 << 20);
    return full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
  driver.cuMemAllocFromPoolAsync = [](CUdeviceptr* memory, size_t, CUmemoryPool, CUstream) {
    if (!full) *memory = next.fetch_add(2 << 20);
    return full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
}

class RoomTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static Rooms rooms;
    SetRoomMaker(&rooms);
    static auto* const ends = new BothEnds(&MayBeFull);
    context_ = ends->context();
  }
  void SetUp() override {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    Reset(false);
  }
  void TearDown() override { full = false; }
  static void Reset(bool room) {
    full = true;
    has_room = room;
    asked = 0;
  }
  // Fails, and has asked, while there is no room; succeeds once there is.
  static void Expect(const char* name, const std::function<CUresult()>& allocate) {
    SCOPED_TRACE(name);
    Reset(false);
    EXPECT_EQ(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(asked, 1);
    Reset(true);
    EXPECT_EQ(allocate(), CUDA_SUCCESS);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(allocate(), CUDA_SUCCESS);
    EXPECT_EQ(asked, 1) << "nobody is asked while there is memory";
  }

  static inline CUcontext context_ = nullptr;
};

TEST_F(RoomTest, DeviceMemory) {
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  Expect("cuMemAlloc", [&] { return cuMemAlloc_v2(&memory, 24 << 20); });
  Expect("cuMemAllocPitch", [&] { return cuMemAllocPitch_v2(&memory, &pitch, 1 << 20, 26, 4); });
}

TEST_F(RoomTest, PhysicalMemory) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle memory = 0;
  Expect("cuMemCreate", [&] { return cuMemCreate(&memory, 2 << 20, &properties, 0); });
}

TEST_F(RoomTest, PoolMemory) {
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  Expect("cuMemAllocAsync", [&] { return cuMemAllocAsync(&memory, 4096, stream); });
  Expect("cuMemAllocFromPoolAsync", [&] { return cuMemAllocFromPoolAsync(&memory, 4096, pool, stream); });
}

TEST_F(RoomTest, Arrays) {
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  const CUDA_ARRAY_DESCRIPTOR flat = {64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  const CUDA_ARRAY3D_DESCRIPTOR deep = {64, 64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
  Expect("cuArrayCreate", [&] { return cuArrayCreate_v2(&array, &flat); });
  Expect("cuArray3DCreate", [&] { return cuArray3DCreate_v2(&array, &deep); });
  Expect("cuMipmappedArrayCreate", [&] { return cuMipmappedArrayCreate(&mipmapped, &deep, 2); });
}

TEST_F(RoomTest, Contexts) {
  CUcontext made = nullptr;
  Expect("cuCtxCreate", [&] { return cuCtxCreate_v2(&made, 0, 0); });
}

TEST_F(RoomTest, NobodyIsAskedForMoreThanTheDeviceHas) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc_v2(&memory, size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(asked, 0);
}

TEST_F(RoomTest, WhatIsFreeIsToldWhenSessionsThatAreOverHaveEnded) {
  size_t free_bytes = 0;
  size_t total = 0;
  awaited = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
  EXPECT_GE(awaited, 1);
}

TEST_F(RoomTest, WhatOthersCanDoWithoutIsFree) {
  size_t before = 0, after = 0, total = 0;
  full = false;
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 32 << 20), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  spare_bytes = 10 << 20;
  ASSERT_EQ(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before + (10 << 20));
  spare_bytes = UINT64_MAX;
  ASSERT_EQ(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, total);
  spare_bytes = 0;
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
