// Local memory of threads: what it takes of the device, and when.
#include <string>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class LocalMemoryTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    int processors = 0, threads = 0;
    EXPECT_CU(cu(DeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_));
    EXPECT_CU(cu(DeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device_));
    threads_ = static_cast<uint64_t>(processors) * static_cast<uint64_t>(threads);
    free_ = Free();
  }
  // One whose threads need so many bytes.
  CUfunction Kernel(unsigned bytes) {
    const std::string text =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry needs(.param .u64 p)\n{\n  .local .align 16 .b8 a[" +
        std::to_string(bytes) +
        "];\n  .reg .u64 %d<3>;\n  .reg .u32 %r<2>;\n  .reg .pred %q;\n  ld.param.u64 %d0, [p];\n  mov.u64 %d1, a;\n"
        "  add.u64 %d2, %d1, %d0;\n  st.local.u32 [%d2], 7;\n  ld.local.u32 %r1, [%d2+64];\n  setp.eq.u64 %q, %d0, 123456;\n"
        "  @%q st.global.u32 [%d0], %r1;\n  ret;\n}\n";
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CU(cu(ModuleLoadData)(&module, text.c_str()));
    EXPECT_CU(cu(ModuleGetFunction)(&function, module, "needs"));
    int local_bytes = 0;
    EXPECT_CU(cu(FuncGetAttribute)(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function));
    EXPECT_EQ(static_cast<int>(bytes), local_bytes);
    return function;
  }
  CUresult Launch(CUfunction kernel, CUstream stream = nullptr) {
    uint64_t offset = 8;
    void* params[] = {&offset};
    return cu(LaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  CUgraph Captured(CUfunction kernel) {
    const CUstream stream = Stream();
    CUgraph graph = nullptr;
    EXPECT_CU(cu(StreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CU(Launch(kernel, stream));
    EXPECT_CU(cu(StreamEndCapture)(stream, &graph));
    return graph;
  }
  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cu(GraphInstantiateWithFlags)(&exec, graph, 0));
    return exec;
  }
  uint64_t Free() {
    size_t free = 0, total = 0;
    EXPECT_CU(cu(MemGetInfo_v2)(&free, &total));
    return free;
  }
  // For each thread, since the test began.
  uint64_t Taken() { return (free_ - Free()) / threads_; }
  size_t Limit() {
    size_t value = 0;
    EXPECT_CU(cu(CtxGetLimit)(&value, CU_LIMIT_STACK_SIZE));
    return value;
  }
  void Lower() {
    EXPECT_CU(cu(CtxSetLimit)(CU_LIMIT_STACK_SIZE, 1024));
    EXPECT_EQ(0u, Taken());
  }

  uint64_t threads_ = 0, free_ = 0;
};

TEST_F(LocalMemoryTest, ALaunchRaisesTheLimitAndNothingLowersItAgain) {
  EXPECT_EQ(1024u, Limit());
  const CUfunction small = Kernel(1024), large = Kernel(1024 + 4096);
  EXPECT_CU(Launch(small));
  EXPECT_EQ(0u, Taken()) << "the context has that";
  EXPECT_CU(Launch(large));
  EXPECT_EQ(4096u, Taken());
  EXPECT_EQ(1024u + 4096u, Limit());
  EXPECT_CU(Launch(small));
  EXPECT_CU(Launch(large));
  EXPECT_EQ(4096u, Taken());
}

TEST_F(LocalMemoryTest, TheProgramsLimitIsInForceAtOnce) {
  const CUfunction large = Kernel(1024 + 4096);
  EXPECT_CU(cu(CtxSetLimit)(CU_LIMIT_STACK_SIZE, 1024 + 8192));
  EXPECT_EQ(8192u, Taken());
  EXPECT_CU(Launch(large));
  EXPECT_EQ(8192u, Taken());
  Lower();
  EXPECT_CU(Launch(large));
  EXPECT_EQ(4096u, Taken());
}

TEST_F(LocalMemoryTest, AGraphTakesItWhenItIsInstantiated) {
  const CUgraph graph = Captured(Kernel(1024 + 4096));
  EXPECT_EQ(0u, Taken());
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_EQ(4096u, Taken());
  Lower();
  EXPECT_CU(cu(GraphLaunch)(exec, nullptr));
  EXPECT_EQ(4096u, Taken());
  EXPECT_CU(cu(CtxSynchronize)());
  Lower();
  EXPECT_CU(cu(GraphUpload)(exec, nullptr));
  EXPECT_EQ(4096u, Taken());
}

TEST_F(LocalMemoryTest, AGraphTakesItWhenItIsChanged) {
  const CUfunction large = Kernel(1024 + 4096);
  const CUgraph graph = Captured(Kernel(128));
  const CUgraphExec exec = Instantiate(graph), other = Instantiate(graph);
  EXPECT_EQ(0u, Taken());
  size_t count = 1;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS params{};
  EXPECT_CU(cu(GraphGetNodes)(graph, &node, &count));
  EXPECT_CU(cu(GraphKernelNodeGetParams_v2)(node, &params));
  params.func = large;
  EXPECT_CU(cu(GraphExecKernelNodeSetParams_v2)(exec, node, &params));
  EXPECT_EQ(4096u, Taken());
  Lower();
  CUgraphExecUpdateResultInfo info{};
  EXPECT_CU(cu(GraphExecUpdate_v2)(other, Captured(large), &info));
  EXPECT_EQ(4096u, Taken());
}

TEST_F(LocalMemoryTest, WhatTheDeviceHasNotIsRefused) {
  const CUfunction small = Kernel(128), large = Kernel(256 << 10);
  const CUgraph graph = Captured(large);
  std::vector<CUdeviceptr> pieces;
  CUdeviceptr piece = 0;
  while (cu(MemAlloc_v2)(&piece, size_t{64} << 20) == CUDA_SUCCESS) pieces.push_back(piece);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, Launch(large));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(GraphInstantiateWithFlags)(&exec, graph, 0));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu(CtxSetLimit)(CU_LIMIT_STACK_SIZE, 256 << 10));
  EXPECT_EQ(1024u, Limit());
  EXPECT_CU(Launch(small)) << "the context lives on";
  EXPECT_CU(cu(CtxSynchronize)());
  for (const CUdeviceptr one : pieces) EXPECT_CU(cu(MemFree_v2)(one));
}

TEST_F(LocalMemoryTest, AGreenContextHasItsPrimaryOnes) {
  CUcontext primary = nullptr, inside = nullptr;
  CUdevResource all{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  ASSERT_CU(cu(DevicePrimaryCtxRetain)(&primary, device_));
  ASSERT_CU(cu(DeviceGetDevResource)(device_, &all, CU_DEV_RESOURCE_TYPE_SM));
  ASSERT_CU(cu(DevResourceGenerateDesc)(&description, &all, 1));
  ASSERT_CU(cu(GreenCtxCreate)(&green, description, device_, CU_GREEN_CTX_DEFAULT_STREAM));
  ASSERT_CU(cu(CtxFromGreenCtx)(&inside, green));
  EXPECT_CU(cu(CtxPushCurrent_v2)(inside));
  EXPECT_CU(Launch(Kernel(1024 + 4096)));
  EXPECT_EQ(1024u + 4096u, Limit());
  EXPECT_CU(cu(CtxSetCurrent)(primary));
  EXPECT_EQ(1024u + 4096u, Limit());
  EXPECT_CU(cu(CtxSetLimit)(CU_LIMIT_STACK_SIZE, 2048));
  EXPECT_CU(cu(CtxSetCurrent)(inside));
  EXPECT_EQ(2048u, Limit());
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_CU(cu(CtxPopCurrent_v2)(nullptr));
  EXPECT_CU(cu(GreenCtxDestroy)(green));
  EXPECT_CU(cu(DevicePrimaryCtxRelease_v2)(device_));
  EXPECT_EQ(0u, Taken());
}

TEST_F(LocalMemoryTest, AContextGivesItBack) {
  CUcontext other = nullptr;
  ASSERT_CU(cu(CtxCreate_v2)(&other, 0, device_));
  EXPECT_CU(Launch(Kernel(1024 + 4096)));
  EXPECT_GE(Taken(), 4096u);
  EXPECT_CU(cu(CtxDestroy_v2)(other));
  EXPECT_EQ(0u, Taken());
}

}  // namespace
}  // namespace tessera
