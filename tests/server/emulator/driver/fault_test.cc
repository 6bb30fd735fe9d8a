#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

// A fault ends what a process can do on a real device: run these there one by one.
class FaultTest : public DriverTest {
 protected:
  void ExpectSticky(CUresult error) {
    ContextHasFailed();
    EXPECT_EQ(error, cu(CtxSynchronize)());
    CUdeviceptr memory = 0;
    EXPECT_EQ(error, cu(MemAlloc_v2)(&memory, 16));
    EXPECT_EQ(error, cu(StreamQuery)(nullptr));
  }
};

TEST_F(FaultTest, IllegalAddressIsSticky) {
  EXPECT_CU(Launch("store", 1, 1, nullptr, CUdeviceptr{0x1000}, 1));
  ExpectSticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, UseAfterFreeIsAnIllegalAddress) {
  if (!Emulated()) GTEST_SKIP();
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_CU(cu(MemFree_v2)(memory));
  EXPECT_CU(Launch("store", 1, 1, nullptr, memory, 1));
  ExpectSticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, OneElementBeyondTheEndIsAnIllegalAddress) {
  if (!Emulated()) GTEST_SKIP();
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_CU(Launch("store", 1, 1, nullptr, memory + 4096, 1));
  ExpectSticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, HostMemoryOfTheProgramIsAnIllegalAddress) {
  int local = 0;
  EXPECT_CU(Launch("store", 1, 1, nullptr, reinterpret_cast<CUdeviceptr>(&local), 1));
  ExpectSticky(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(0, local);
}

TEST_F(FaultTest, MisalignedAddress) {
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_CU(Launch("store", 1, 1, nullptr, memory + 2, 1));
  ExpectSticky(CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(FaultTest, Trap) {
  EXPECT_CU(Launch("trap_now", 1, 1, nullptr));
  ExpectSticky(CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(FaultTest, Assert) {
  EXPECT_CU(Launch("assert_now", 1, 1, nullptr, 1));
  ExpectSticky(CUDA_ERROR_ASSERT);
}

TEST_F(FaultTest, LaterWorkIsSkippedAndWaitersWake) {
  const CUstream stream = Stream();
  int* value = Pinned(1);
  *value = 0;
  const CUevent event = Event();
  void* params[] = {&value, value};
  const CUfunction store = Function("store");
  EXPECT_CU(Launch("trap_now", 1, 1, stream));
  cu(LaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);  // accepted or not, by what is known by then
  cu(EventRecord)(event, stream);
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu(EventSynchronize)(event));
  EXPECT_EQ(0, *value);
  ContextHasFailed();
}

TEST_F(FaultTest, AnotherContextGoesOn) {
  if (!Emulated()) GTEST_SKIP();
  EXPECT_CU(Launch("trap_now", 1, 1, nullptr));
  ExpectSticky(CUDA_ERROR_LAUNCH_FAILED);
  CUcontext other = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, device_));
  const CUdeviceptr memory = Allocate(4);
  EXPECT_CU(cu(MemsetD32_v2)(memory, 1, 1));
  EXPECT_EQ(1, ReadOne(memory));
  EXPECT_CU(cu(CtxDestroy_v2)(other));
}

}  // namespace
}  // namespace tessera
