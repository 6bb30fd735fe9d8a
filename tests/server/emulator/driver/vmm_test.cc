#include <unistd.h>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class VmmTest : public DriverTest {
 protected:
  static constexpr size_t kBytes = 4 << 20;
  static constexpr size_t kPlacedBytes = 32 << 20;  // what is reserved where it wants to be
  CUmemAllocationProp Properties() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
  }
  CUmemGenericAllocationHandle Create() {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = Properties();
    EXPECT_CU(cu(MemCreate)(&handle, kBytes, &properties, 0));
    return handle;
  }
  CUdeviceptr Map(CUmemGenericAllocationHandle handle, CUdeviceptr hint = 0) {
    CUdeviceptr address = 0;
    EXPECT_CU(cu(MemAddressReserve)(&address, kBytes, 0, hint, 0));
    EXPECT_CU(cu(MemMap)(address, kBytes, 0, handle, 0));
    return address;
  }
  void Allow(CUdeviceptr address, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, flags};
    EXPECT_CU(cu(MemSetAccess)(address, kBytes, &access, 1));
  }
  void Unmap(CUdeviceptr address) {
    EXPECT_CU(cu(MemUnmap)(address, kBytes));
    EXPECT_CU(cu(MemAddressFree)(address, kBytes));
  }
};

TEST_F(VmmTest, FixedAddressIsHonoured) {
  size_t granularity = 0;
  const CUmemAllocationProp properties = Properties();
  EXPECT_CU(cu(MemGetAllocationGranularity)(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(size_t{2} << 20, granularity);
  const CUdeviceptr wish = 0x7e9000000000;
  const CUmemGenericAllocationHandle handle = Create();
  CUdeviceptr address = 0;
  ASSERT_CU(cu(MemAddressReserve)(&address, kPlacedBytes, 0, wish, 0));
  EXPECT_EQ(wish, address);
  EXPECT_CU(cu(MemMap)(address, kBytes, 0, handle, 0));
  int value = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemcpyDtoH_v2)(&value, address, 4));  // no access yet
  Allow(address);
  EXPECT_CU(Launch("store", 1, 1, nullptr, address + kBytes - 4, 6));
  EXPECT_EQ(6, ReadOne(address + kBytes - 4));
  EXPECT_CU(cu(MemRelease)(handle));
  EXPECT_EQ(6, ReadOne(address + kBytes - 4));  // the mapping keeps the memory
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAddressFree)(address, kPlacedBytes));
  EXPECT_CU(cu(MemUnmap)(address, kBytes));
  EXPECT_CU(cu(MemAddressFree)(address, kPlacedBytes));
}

// Measured on driver 580 (H200), where the same test passes.
TEST_F(VmmTest, WishesFitTheGranularityTheAlignmentAndTheAddressSpace) {
  constexpr CUdeviceptr kWish = 0x7e9000000000;
  CUdeviceptr address = 0;
  ASSERT_CU(cu(MemAddressReserve)(&address, kPlacedBytes, 0, kWish + (2 << 20), 0));
  EXPECT_EQ(kWish + kPlacedBytes, address);  // the next place
  EXPECT_CU(cu(MemAddressFree)(address, kPlacedBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAddressReserve)(&address, kPlacedBytes, 0, kWish + 4096, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAddressReserve)(&address, kPlacedBytes, 1ull << 40, kWish + kPlacedBytes, 0));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(MemAddressReserve)(&address, kPlacedBytes, 0, 0x900000000000, 0));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(MemAddressReserve)(&address, 128ull << 40, 0, 0, 0));
}

TEST_F(VmmTest, MemoryIsMappedAcrossReservationsThatFollowEachOther) {
  constexpr CUdeviceptr kWish = 0x7ea000000000;
  CUdeviceptr first = 0, second = 0;
  ASSERT_CU(cu(MemAddressReserve)(&first, kPlacedBytes, 0, kWish, 0));
  ASSERT_CU(cu(MemAddressReserve)(&second, kPlacedBytes, 0, kWish + kPlacedBytes, 0));
  ASSERT_EQ(first + kPlacedBytes, second);
  const CUmemGenericAllocationHandle handle = Create();
  EXPECT_CU(cu(MemMap)(second - kBytes / 2, kBytes, 0, handle, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemUnmap)(first, kPlacedBytes));  // half of it
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemUnmap)(second, kPlacedBytes));
  EXPECT_CU(cu(MemUnmap)(first, 2 * kPlacedBytes));  // with what is only reserved around it
  EXPECT_CU(cu(MemUnmap)(first, kBytes));            // where nothing is mapped
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemUnmap)(0x7eb000000000, kBytes));
  EXPECT_CU(cu(MemRelease)(handle));
  EXPECT_CU(cu(MemAddressFree)(first, kPlacedBytes));
  EXPECT_CU(cu(MemAddressFree)(second, kPlacedBytes));
}

TEST_F(VmmTest, TwoMappingsAreTheSameBytes) {
  const CUmemGenericAllocationHandle handle = Create();
  const CUdeviceptr first = Map(handle), second = Map(handle);
  Allow(first);
  Allow(second);
  Write(first, {33});
  EXPECT_EQ(33, ReadOne(second));
  Unmap(first);
  EXPECT_EQ(33, ReadOne(second));
  Unmap(second);
  EXPECT_CU(cu(MemRelease)(handle));
}

TEST_F(VmmTest, NeighbouringMappingsAreOneRange) {
  CUdeviceptr address = 0;
  ASSERT_CU(cu(MemAddressReserve)(&address, 2 * kBytes, 0, 0, 0));
  const CUmemGenericAllocationHandle a = Create(), b = Create();
  EXPECT_CU(cu(MemMap)(address, kBytes, 0, a, 0));
  EXPECT_CU(cu(MemMap)(address + kBytes, kBytes, 0, b, 0));
  Allow(address);
  Allow(address + kBytes);
  EXPECT_CU(cu(MemsetD8_v2)(address, 1, 2 * kBytes));
  EXPECT_EQ(0x01010101, ReadOne(address + kBytes - 4));
  EXPECT_EQ(0x01010101, ReadOne(address + kBytes));
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_CU(cu(MemUnmap)(address, 2 * kBytes));
  EXPECT_CU(cu(MemAddressFree)(address, 2 * kBytes));
  EXPECT_CU(cu(MemRelease)(a));
  EXPECT_CU(cu(MemRelease)(b));
}

TEST_F(VmmTest, ExportedMemoryIsTheSameMemory) {
  const CUmemGenericAllocationHandle handle = Create();
  int fd = -1;
  EXPECT_CU(cu(MemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  EXPECT_CU(cu(MemImportFromShareableHandle)(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  const CUdeviceptr first = Map(handle), second = Map(imported);
  Allow(first);
  Allow(second);
  Write(first, {44});
  EXPECT_EQ(44, ReadOne(second));
  Unmap(first);
  Unmap(second);
  EXPECT_CU(cu(MemRelease)(handle));
  EXPECT_CU(cu(MemRelease)(imported));
}

TEST_F(VmmTest, ReadOnlyMappingFaultsOnWrite) {
  if (!Emulated()) GTEST_SKIP();
  const CUmemGenericAllocationHandle handle = Create();
  const CUdeviceptr address = Map(handle);
  Allow(address, CU_MEM_ACCESS_FLAGS_PROT_READ);
  unsigned long long flags = 0;
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  EXPECT_CU(cu(MemGetAccess)(&flags, &location, address));
  EXPECT_EQ(static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ), flags);
  EXPECT_CU(Launch("store", 1, 1, nullptr, address, 1));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cu(CtxSynchronize)());
  ContextHasFailed();
  Unmap(address);
  EXPECT_CU(cu(MemRelease)(handle));
}

}  // namespace
}  // namespace tessera
