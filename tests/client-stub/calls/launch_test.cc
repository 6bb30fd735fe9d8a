// The launch functions of CUDA 3, launches over several devices, and the unsuffixed linker exports, with both ends in one
// process, on the emulator.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/client-stub/both_ends.h"

// The exports behind names that cuda.h maps to newer ones.
extern "C" {
CUresult UnsuffixedLinkCreate(unsigned, CUjit_option*, void**, CUlinkState*) asm("cuLinkCreate");
CUresult UnsuffixedLinkAddData(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*,
                               void**) asm("cuLinkAddData");
CUresult UnsuffixedLinkAddFile(CUlinkState, CUjitInputType, const char*, unsigned, CUjit_option*, void**) asm("cuLinkAddFile");
}

namespace tessera {
namespace {

// Thread 0 of block 0 writes what it was given and what shape it was launched in.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry tell(.param .u64 out, .param .u32 i, .param .f32 f) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<9>;
  .reg .f32 %f<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [i];
  ld.param.f32 %f1, [f];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  or.b32 %r2, %r2, %r3;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 ret;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r5, %nctaid.y;
  mov.u32 %r6, %ntid.x;
  mov.u32 %r7, %ntid.y;
  mov.u32 %r8, %dynamic_smem_size;
  st.global.u32 [%rd1], %r1;
  st.global.f32 [%rd1+4], %f1;
  st.global.u32 [%rd1+8], %r4;
  st.global.u32 [%rd1+12], %r5;
  st.global.u32 [%rd1+16], %r6;
  st.global.u32 [%rd1+20], %r7;
  st.global.u32 [%rd1+24], %r8;
  ret;
}
.visible .entry nothing() { ret; }
)";

struct Told {
  uint32_t i;
  float f;
  uint32_t grid_x, grid_y, block_x, block_y, shared_bytes;
  bool operator==(const Told&) const = default;
};

void PrintTo(const Told& told, std::ostream* out) {
  *out << told.i << " " << told.f << " grid " << told.grid_x << "x" << told.grid_y << " block " << told.block_x << "x"
       << told.block_y << " shared " << told.shared_bytes;
}

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    Ends();
    ASSERT_EQ(cuMemAlloc(&out_, sizeof(Told)), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(out_, 0, sizeof(Told)), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&tell_, module_, "tell"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&nothing_, module_, "nothing"), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(out_), CUDA_SUCCESS);
  }
  Told Read() {
    Told told{};
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(&told, out_, sizeof(told)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(out_, 0, sizeof(Told)), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS) << "before work on a stream that does not wait for it";
    return told;
  }
  void SetParameters(uint32_t i, float f) {
    EXPECT_EQ(cuParamSetv(tell_, 0, &out_, sizeof(out_)), CUDA_SUCCESS);
    EXPECT_EQ(cuParamSeti(tell_, 8, i), CUDA_SUCCESS);
    EXPECT_EQ(cuParamSetf(tell_, 12, f), CUDA_SUCCESS);
    EXPECT_EQ(cuParamSetSize(tell_, 16), CUDA_SUCCESS);
  }

  CUdeviceptr out_ = 0;
  CUmodule module_ = nullptr;
  CUfunction tell_ = nullptr, nothing_ = nullptr;
  CUstream stream_ = nullptr;
};

TEST_F(LaunchTest, PreparedLaunchesUseWhatWasSetLast) {
  SetParameters(42, 2.5f);
  ASSERT_EQ(cuFuncSetBlockShape(tell_, 8, 4, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncSetSharedSize(tell_, 128), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunch(tell_), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{42, 2.5f, 1, 1, 8, 4, 128}));
  ASSERT_EQ(cuLaunchGrid(tell_, 3, 2), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{42, 2.5f, 3, 2, 8, 4, 128}));
  ASSERT_EQ(cuParamSeti(tell_, 8, 7), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncSetSharedSize(tell_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchGridAsync(tell_, 5, 1, stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{7, 2.5f, 5, 1, 8, 4, 0}));
  // An ordinary launch neither uses nor changes them.
  uint32_t i = 9;
  float f = 1.5f;
  void* params[] = {&out_, &i, &f};
  ASSERT_EQ(cuLaunchKernel(tell_, 2, 1, 1, 16, 1, 1, 0, nullptr, params, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{9, 1.5f, 2, 1, 16, 1, 0}));
  ASSERT_EQ(cuLaunch(tell_), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{7, 2.5f, 1, 1, 8, 4, 0}));
}

TEST_F(LaunchTest, PreparedLaunchesCheckTheirArguments) {
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 1, -1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nullptr, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuFuncSetSharedSize(nullptr, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuParamSetSize(nullptr, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuParamSetSize(nothing_, 1 << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSeti(nothing_, -1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSeti(nothing_, 1 << 20, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetv(nothing_, 0, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunch(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunch(nothing_), CUDA_SUCCESS) << "one thread, as long as no block shape is set";
  EXPECT_EQ(cuLaunchGrid(nothing_, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchGrid(nothing_, 1, -1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchGrid(nothing_, 1, 65536), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchGridAsync(nothing_, 1, 1, reinterpret_cast<CUstream>(0x1230)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 32, 32, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nothing_, 1024, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetSharedSize(nothing_, 49152), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetSharedSize(nothing_, 49153), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchGrid(nothing_, 70000, 1), CUDA_SUCCESS);
  // Fewer parameters than the kernel has.
  SetParameters(1, 1);
  ASSERT_EQ(cuFuncSetBlockShape(tell_, 1, 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuParamSetSize(tell_, 12), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunch(tell_), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{1, 0.f, 1, 1, 1, 1, 0})) << "what was not set is zero";
}

TEST_F(LaunchTest, APreparedLaunchIsCaptured) {
  SetParameters(5, 0.5f);
  ASSERT_EQ(cuFuncSetBlockShape(tell_, 2, 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchGridAsync(tell_, 4, 1, stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(Read(), Told{});
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{5, 0.5f, 4, 1, 2, 1, 0}));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(LaunchTest, ACooperativeLaunchOnAListOfDevices) {
  uint32_t i = 3;
  float f = 4.f;
  void* params[] = {&out_, &i, &f};
  CUDA_LAUNCH_PARAMS launch{};
  launch.function = tell_;
  launch.gridDimX = 2;
  launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1;
  launch.blockDimX = 32;
  launch.sharedMemBytes = 64;
  launch.hStream = stream_;
  launch.kernelParams = params;
  ASSERT_EQ(cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(Read(), (Told{3, 4.f, 2, 1, 32, 1, 64}));
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(&launch, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(&launch, 1, 8), CUDA_ERROR_INVALID_VALUE);
  launch.hStream = nullptr;
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0), CUDA_ERROR_INVALID_HANDLE);
  launch.hStream = stream_;
  launch.gridDimX = 1 << 20;
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(LaunchTest, TheUnsuffixedLinkerIsTheSameLinker) {
  CUlinkState state = nullptr;
  EXPECT_EQ(UnsuffixedLinkCreate(0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(UnsuffixedLinkCreate(0, nullptr, nullptr, &state), CUDA_SUCCESS);
  char text[sizeof(kPtx)];
  std::memcpy(text, kPtx, sizeof(kPtx));
  EXPECT_EQ(UnsuffixedLinkAddFile(state, CU_JIT_INPUT_PTX, "/nonexistent.ptx", 0, nullptr, nullptr), CUDA_ERROR_FILE_NOT_FOUND);
  ASSERT_EQ(UnsuffixedLinkAddData(state, CU_JIT_INPUT_PTX, text, sizeof(text), "text", 0, nullptr, nullptr), CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_SUCCESS);
  CUmodule linked = nullptr;
  ASSERT_EQ(cuModuleLoadData(&linked, image), CUDA_SUCCESS);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, linked, "nothing"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(linked), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
