// Memory whose last reference the driver refuses to take back, for whatever reason: the program hears of it and still has its
// memory.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

constexpr size_t kBytes = 2 << 20;
std::atomic<bool> refuses{false};
std::atomic<int> asked{0};
CUresult (*real_release)(CUmemGenericAllocationHandle) = nullptr;

void Replace(DriverTable& driver) {
  real_release = driver.cuMemRelease;
  driver.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    ++asked;
    return refuses ? CUDA_ERROR_ILLEGAL_STATE : real_release(handle);
  };
}

class RefusedReleaseTest : public testing::Test {
 protected:
  void SetUp() override {
    static auto* const ends = new BothEnds(&Replace);
    ASSERT_NE(ends->context(), nullptr);
  }
  void TearDown() override { refuses = false; }
  static CUmemGenericAllocationHandle Create() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kBytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
};

CUdeviceptr Map(CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, kBytes, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address, kBytes, 0, handle, 0), CUDA_SUCCESS);
  return address;
}

void Unmap(CUdeviceptr address) {
  EXPECT_EQ(cuMemUnmap(address, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(address, kBytes), CUDA_SUCCESS);
}

TEST_F(RefusedReleaseTest, OnlyTheLastReferenceIsTheDriversAffair) {
  const CUmemGenericAllocationHandle handle = Create();
  const CUdeviceptr address = Map(handle);
  CUmemGenericAllocationHandle retained = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(address)), CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  Unmap(address);

  refuses = true;
  asked = 0;
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(asked, 2);
  refuses = false;
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(asked, 3);
}

TEST_F(RefusedReleaseTest, TheMemoryIsWhatItWas) {
  const CUmemGenericAllocationHandle handle = Create();
  refuses = true;
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_ILLEGAL_STATE);
  refuses = false;
  const CUdeviceptr address = Map(handle);
  uint64_t types = 0;
  EXPECT_EQ(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address), CUDA_SUCCESS);
  EXPECT_EQ(types, uint64_t{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR});
  CUmemGenericAllocationHandle retained = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(address)), CUDA_SUCCESS);
  Unmap(address);
  EXPECT_EQ(cuMemRelease(retained), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
