#include <sys/mman.h>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using MemoryTest = DriverTest;

TEST_F(MemoryTest, NewMemoryIsPoisoned) {
  if (!Emulated()) GTEST_SKIP();
  const CUdeviceptr memory = Allocate(4 << 20);
  EXPECT_EQ(static_cast<int>(0xCDCDCDCD), ReadOne(memory));
  for (CUdeviceptr at = memory + (1 << 20); at < memory + (4 << 20); at += 16 * 4096) {
    EXPECT_EQ(static_cast<int>(0xCDCDCDCD), ReadOne(at)) << at - memory;  // a program that reads more than a few pages finds it
  }
  EXPECT_EQ(static_cast<int>(0xCDCDCDCD), ReadOne(memory + (4 << 20) - 4));
}

TEST_F(MemoryTest, AllocationChecksItsArguments) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAlloc_v2)(&memory, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAlloc_v2)(nullptr, 16));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(MemAlloc_v2)(&memory, size_t{1} << 50));
  EXPECT_CU(cu(MemFree_v2)(0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFree_v2)(0x1234));
}

TEST_F(MemoryTest, TotalMemoryIsEnforcedAndFreeingGivesBack) {
  if (!Emulated()) GTEST_SKIP();
  const CUdeviceptr most = Allocate(200 << 20);
  CUdeviceptr more = 0;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(MemAlloc_v2)(&more, 100 << 20));
  size_t free = 0, total = 0;
  EXPECT_CU(cu(MemGetInfo_v2)(&free, &total));
  EXPECT_EQ(size_t{256} << 20, total);
  EXPECT_EQ(size_t{56} << 20, free);
  EXPECT_CU(cu(MemFree_v2)(most));
  EXPECT_CU(cu(MemAlloc_v2)(&more, 100 << 20));
}

TEST_F(MemoryTest, FreedMemoryIsRefused) {
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_CU(cu(MemFree_v2)(memory));
  int value = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemcpyDtoH_v2)(&value, memory, 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFree_v2)(memory));
}

TEST_F(MemoryTest, AddressRangeNamesTheAllocation) {
  const CUdeviceptr memory = Allocate(1000);
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_CU(cu(MemGetAddressRange_v2)(&base, &size, memory + 999));
  EXPECT_EQ(memory, base);
  EXPECT_EQ(1000u, size);
  int local = 0;
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu(MemGetAddressRange_v2)(&base, &size, reinterpret_cast<CUdeviceptr>(&local)));
}

TEST_F(MemoryTest, PitchIsAMultipleOfTheTextureAlignment) {
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  EXPECT_CU(cu(MemAllocPitch_v2)(&memory, &pitch, 1001, 3, 4));
  EXPECT_GE(pitch, 1001u);
  EXPECT_EQ(0u, pitch % 512);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemAllocPitch_v2)(&memory, &pitch, 1001, 3, 5));
}

TEST_F(MemoryTest, HostMemoryHasOneAddress) {
  int* pinned = Pinned(16);
  CUdeviceptr address = 0;
  EXPECT_CU(cu(MemHostGetDevicePointer_v2)(&address, pinned, 0));
  EXPECT_EQ(reinterpret_cast<CUdeviceptr>(pinned), address);
  unsigned type = 0;
  EXPECT_CU(cu(PointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_HOST), type);
  unsigned flags = 0;
  EXPECT_CU(cu(MemHostGetFlags)(&flags, pinned));
  EXPECT_NE(0u, flags & CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_CU(cu(MemFreeHost)(pinned));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemFreeHost)(pinned));
}

TEST_F(MemoryTest, RegisteringTakesExistingMemoryOnce) {
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_CU(cu(MemHostRegister_v2)(pages, 8192, 0));
  EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu(MemHostRegister_v2)(pages, 4096, 0));
  CUdeviceptr address = 0;
  EXPECT_CU(cu(MemHostGetDevicePointer_v2)(&address, pages, 0));
  EXPECT_EQ(reinterpret_cast<CUdeviceptr>(pages), address);
  EXPECT_CU(cu(MemHostUnregister)(pages));
  EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu(MemHostUnregister)(pages));
  munmap(pages, 8192);
}

TEST_F(MemoryTest, AttributesOfUnknownPointersAreZeroInTheListForm) {
  int local = 0;
  unsigned type = 7;
  int ordinal = 7;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cu(PointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local)));
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* data[] = {&type, &ordinal};
  EXPECT_CU(cu(PointerGetAttributes)(2, attributes, data, reinterpret_cast<CUdeviceptr>(&local)));
  EXPECT_EQ(0u, type);
  EXPECT_EQ(-2, ordinal);
}

TEST_F(MemoryTest, ManagedMemoryIsRefusedHonestly) {
  if (!Emulated()) GTEST_SKIP();
  CUdeviceptr memory = 0;
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu(MemAllocManaged)(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
}

}  // namespace
}  // namespace tessera
