#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using CopyTest = DriverTest;

TEST_F(CopyTest, LinearCopiesGoBothWays) {
  const std::vector<int> values = {1, 2, 3, 4};
  const CUdeviceptr a = Allocate(16), b = Allocate(16), c = Allocate(16);
  Write(a, values);
  EXPECT_CU(cu(MemcpyDtoD_v2)(b, a, 16));
  EXPECT_CU(cu(Memcpy)(c, b, 16));
  EXPECT_EQ(values, Read(c, 4));
  std::vector<int> host(4);
  EXPECT_CU(cu(Memcpy)(reinterpret_cast<CUdeviceptr>(host.data()), c, 16));
  EXPECT_EQ(values, host);
}

TEST_F(CopyTest, RangesAreChecked) {
  const CUdeviceptr memory = Allocate(4 << 20);
  std::vector<char> host((4 << 20) + 1);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemcpyHtoD_v2)(memory, host.data(), host.size()));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemcpyHtoD_v2)(0x10, host.data(), 4));
  EXPECT_CU(cu(MemcpyHtoD_v2)(memory, host.data(), 0));
}

TEST_F(CopyTest, PageableSourceIsReadBeforeTheCallReturns) {
  const CUdeviceptr memory = Allocate(4);
  const CUstream stream = Stream();
  for (int i = 0; i < 50; ++i) {
    int value = i;
    EXPECT_CU(cu(MemcpyHtoDAsync_v2)(memory, &value, 4, stream));
    value = -1;
    int back = 0;
    EXPECT_CU(cu(MemcpyDtoHAsync_v2)(&back, memory, 4, stream));
    EXPECT_EQ(i, back);  // a pageable destination makes the call synchronous
  }
}

TEST_F(CopyTest, PinnedSourceIsReadWhenTheStreamGetsThere) {
  int* flag = Pinned(1);
  int* source = Pinned(1);
  *flag = 0;
  *source = 1;
  const CUdeviceptr memory = Allocate(4);
  const CUstream stream = Stream();
  EXPECT_CU(cu(StreamWaitValue32_v2)(stream, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  EXPECT_CU(cu(MemcpyHtoDAsync_v2)(memory, source, 4, stream));
  *source = 2;
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(2, ReadOne(memory));
}

TEST_F(CopyTest, TwoDimensionalCopyMovesTheBox) {
  const CUdeviceptr memory = Allocate(64 * 8);
  EXPECT_CU(cu(MemsetD8_v2)(memory, 0, 64 * 8));
  std::vector<unsigned char> host(10 * 4);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 10;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = 64;
  copy.dstXInBytes = 5;
  copy.dstY = 3;
  copy.WidthInBytes = 3;
  copy.Height = 2;
  EXPECT_CU(cu(Memcpy2DUnaligned_v2)(&copy));
  std::vector<unsigned char> back(64 * 8);
  EXPECT_CU(cu(MemcpyDtoH_v2)(back.data(), memory, back.size()));
  for (size_t y = 0; y < 8; ++y) {
    for (size_t x = 0; x < 64; ++x) {
      const bool inside = y >= 3 && y < 5 && x >= 5 && x < 8;
      const size_t expected = inside ? (y - 3 + 1) * 10 + (x - 5 + 2) : 0;
      ASSERT_EQ(expected, back[y * 64 + x]) << x << "," << y;
    }
  }
  copy.srcPitch = 4;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(Memcpy2D_v2)(&copy));
}

TEST_F(CopyTest, ThreeDimensionalCopyThroughAnArray) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = 4;
  descriptor.Height = 3;
  descriptor.Depth = 2;
  descriptor.Format = CU_AD_FORMAT_SIGNED_INT32;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  ASSERT_CU(cu(Array3DCreate_v2)(&array, &descriptor));
  std::vector<int> values(24), back(24);
  for (int i = 0; i < 24; ++i) values[static_cast<size_t>(i)] = i;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = 16;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = 16;
  copy.Height = 3;
  copy.Depth = 2;
  EXPECT_CU(cu(Memcpy3D_v2)(&copy));
  CUDA_MEMCPY3D read{};
  read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  read.srcArray = array;
  read.dstMemoryType = CU_MEMORYTYPE_HOST;
  read.dstHost = back.data();
  read.dstPitch = 16;
  read.dstHeight = 3;
  read.WidthInBytes = 16;
  read.Height = 3;
  read.Depth = 2;
  EXPECT_CU(cu(Memcpy3D_v2)(&read));
  EXPECT_EQ(values, back);
  copy.dstXInBytes = 4;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(Memcpy3D_v2)(&copy));
  EXPECT_CU(cu(ArrayDestroy)(array));
}

TEST_F(CopyTest, SetsFillElements) {
  const CUdeviceptr memory = Allocate(64);
  EXPECT_CU(cu(MemsetD32_v2)(memory, 7, 16));
  EXPECT_EQ(std::vector<int>(16, 7), Read(memory, 16));
  EXPECT_CU(cu(MemsetD16_v2)(memory, 0x1234, 2));
  EXPECT_EQ(0x12341234, ReadOne(memory));
  EXPECT_CU(cu(MemsetD2D8_v2)(memory, 16, 1, 4, 4));
  EXPECT_EQ(0x01010101, ReadOne(memory + 48));
  EXPECT_EQ(7, ReadOne(memory + 52));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(MemsetD32_v2)(memory + 1, 7, 1));
}

TEST_F(CopyTest, PeerCopyBetweenDevices) {
  int count = 0;
  EXPECT_CU(cu(DeviceGetCount)(&count));
  if (count < 2) GTEST_SKIP() << "one device";
  const CUdeviceptr here = Allocate(4);
  Write(here, {42});
  CUcontext other = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, 1));
  const CUdeviceptr there = Allocate(4);
  EXPECT_CU(cu(MemcpyPeer)(there, other, here, context_, 4));
  EXPECT_EQ(42, ReadOne(there));
  EXPECT_CU(cu(CtxDestroy_v2)(other));
}

}  // namespace
}  // namespace tessera
