#include <thread>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using ContextTest = DriverTest;

TEST_F(ContextTest, StackPushesAndPops) {
  CUcontext other = nullptr, current = nullptr, popped = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, device_));
  EXPECT_CU(cu(CtxGetCurrent)(&current));
  EXPECT_EQ(other, current);
  EXPECT_CU(cu(CtxPopCurrent_v2)(&popped));
  EXPECT_EQ(other, popped);
  EXPECT_CU(cu(CtxGetCurrent)(&current));
  EXPECT_EQ(context_, current);
  EXPECT_CU(cu(CtxDestroy_v2)(other));
  unsigned long long mine = 0;
  EXPECT_CU(cu(CtxGetId)(context_, &mine));
  EXPECT_NE(0u, mine);
}

TEST_F(ContextTest, ThreadsHaveNoContextAtFirst) {
  std::thread([&] {
    CUcontext current = context_;
    EXPECT_CU(cu(CtxGetCurrent)(&current));
    EXPECT_EQ(nullptr, current);
    CUdeviceptr memory = 0;
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cu(MemAlloc_v2)(&memory, 16));
  }).join();
}

TEST_F(ContextTest, DestroyedContextStaysRecognised) {
  if (!Emulated()) GTEST_SKIP();  // undefined there
  CUcontext other = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, device_));
  EXPECT_CU(cu(CtxPopCurrent_v2)(nullptr));
  std::thread([&] {
    EXPECT_CU(cu(CtxSetCurrent)(other));
    EXPECT_CU(cu(CtxDestroy_v2)(other));
  }).join();
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cu(CtxSetCurrent)(other));
}

TEST_F(ContextTest, PrimaryContextLivesWhileRetained) {
  const CUdevice device = Emulated() ? 1 : 0;
  unsigned flags = 0;
  int active = 1;
  EXPECT_CU(cu(DevicePrimaryCtxGetState)(device, &flags, &active));
  EXPECT_EQ(0, active);
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cu(DevicePrimaryCtxRelease_v2)(device));
  CUcontext first = nullptr, second = nullptr;
  EXPECT_CU(cu(DevicePrimaryCtxRetain)(&first, device));
  EXPECT_CU(cu(DevicePrimaryCtxRetain)(&second, device));
  EXPECT_EQ(first, second);
  EXPECT_CU(cu(CtxPushCurrent_v2)(first));
  CUdeviceptr memory = Allocate(16);
  EXPECT_NE(0u, memory);
  EXPECT_CU(cu(DevicePrimaryCtxRelease_v2)(device));
  EXPECT_CU(cu(DevicePrimaryCtxRelease_v2)(device));
  EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu(MemAlloc_v2)(&memory, 16));
  EXPECT_CU(cu(DevicePrimaryCtxRetain)(&second, device));
  EXPECT_EQ(first, second);
  EXPECT_CU(cu(MemAlloc_v2)(&memory, 16));
  EXPECT_CU(cu(DevicePrimaryCtxReset_v2)(device));
  EXPECT_CU(cu(CtxPopCurrent_v2)(nullptr));
}

TEST_F(ContextTest, LimitsReadBack) {
  size_t value = 0;
  EXPECT_CU(cu(CtxGetLimit)(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  EXPECT_GE(value, size_t{1} << 20);
  EXPECT_CU(cu(CtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  EXPECT_CU(cu(CtxGetLimit)(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  EXPECT_GE(value, size_t{16} << 20);
  int most = 0;
  EXPECT_CU(cu(DeviceGetAttribute)(&most, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, device_));
  EXPECT_CU(cu(CtxSetLimit)(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, most));
  EXPECT_CU(cu(CtxGetLimit)(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
  EXPECT_EQ(static_cast<size_t>(most), value);
  EXPECT_CU(cu(CtxResetPersistingL2Cache)());
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(CtxGetLimit)(&value, static_cast<CUlimit>(77)));
}

TEST_F(ContextTest, DevicesDescribeThemselves) {
  int value = 0;
  EXPECT_CU(cu(DeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
  EXPECT_EQ(9, value);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(DeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(9999), device_));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cu(DeviceGet)(&value, 100));
  char bus[32] = "";
  CUdevice found = -1;
  EXPECT_CU(cu(DeviceGetPCIBusId)(bus, sizeof bus, device_));
  EXPECT_CU(cu(DeviceGetByPCIBusId)(&found, bus));
  EXPECT_EQ(device_, found);
  const char* name = nullptr;
  EXPECT_CU(cu(GetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &name));
  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", name);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(GetErrorName)(static_cast<CUresult>(12345), &name));
}

TEST_F(ContextTest, PeerAccessOpensMemoryToKernels) {
  if (!Emulated()) GTEST_SKIP();
  CUcontext other = nullptr;
  const CUdeviceptr here = Allocate(4);
  Write(here, {1});
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, 1));
  EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu(CtxDisablePeerAccess)(context_));
  EXPECT_CU(cu(CtxEnablePeerAccess)(context_, 0));
  EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cu(CtxEnablePeerAccess)(context_, 0));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_CU(cu(ModuleLoadData)(&module, KernelText().c_str()));
  ASSERT_CU(cu(ModuleGetFunction)(&function, module, "store"));
  CUdeviceptr to = here;
  int value = 8;
  void* params[] = {&to, &value};
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_EQ(8, ReadOne(here));
  EXPECT_CU(cu(CtxDisablePeerAccess)(context_));
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cu(CtxSynchronize)());
  EXPECT_CU(cu(CtxDestroy_v2)(other));
}

}  // namespace
}  // namespace tessera
