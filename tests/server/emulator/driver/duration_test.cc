// Kernels that say how long they occupy the device: an emulated device's own.
#include <chrono>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

class DurationTest : public DriverTest {
 protected:
  void SetUp() override {
    if (!Emulated()) GTEST_SKIP();
    DriverTest::SetUp();
  }
  CUfunction Load(const std::string& kernel) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CU(cu(ModuleLoadData)(&module, (".version 7.0\n.target sm_70\n.address_size 64\n" + kernel).c_str()));
    EXPECT_CU(cu(ModuleGetFunction)(&function, module, "k"));
    return function;
  }
  CUfunction LoadKernel() { return Load(".visible .entry k(.param .u64 us)\n.pragma \"tessera_us us\";\n{ ret; }"); }
  template <typename T>
  void LaunchFor(CUfunction function, CUstream stream, T duration_us) {
    void* params[] = {&duration_us};
    EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  }
  void Begin() { begin_ = std::chrono::steady_clock::now(); }
  std::chrono::steady_clock::duration Took() const { return std::chrono::steady_clock::now() - begin_; }

 private:
  std::chrono::steady_clock::time_point begin_;
};

TEST_F(DurationTest, AKernelTakesAsLongAsItSays) {
  const CUfunction narrow = Load(".visible .entry k(.param .u32 us)\n{ .pragma \"tessera_us us\"; ret; }");
  const CUfunction wide = LoadKernel();
  const CUstream stream = Stream();
  LaunchFor(narrow, stream, uint32_t{0});
  EXPECT_CU(cu(StreamSynchronize)(stream));
  Begin();
  for (int i = 0; i < 20; ++i) LaunchFor(narrow, stream, uint32_t{700});
  for (int i = 0; i < 5; ++i) LaunchFor(wide, stream, uint64_t{20'000});
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_GE(Took(), milliseconds(114));
  EXPECT_LT(Took(), milliseconds(114 + 1000)) << "or the machine is very busy";
}

TEST_F(DurationTest, ItIsOverBeforeTheNextCommandOfItsStreamBegins) {
  const CUfunction function = LoadKernel();
  const CUstream stream = Stream();
  const CUevent before = Event(), after = Event();
  EXPECT_CU(cu(EventRecord)(before, stream));
  LaunchFor(function, stream, uint64_t{30'000});
  EXPECT_CU(cu(EventRecord)(after, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(EventQuery)(after));
  EXPECT_CU(cu(EventSynchronize)(after));
  float ms = 0;
  EXPECT_CU(cu(EventElapsedTime)(&ms, before, after));
  EXPECT_GE(ms, 29.9F);
}

TEST_F(DurationTest, StreamsOccupyTheDeviceOneAfterTheOther) {
  const CUfunction function = LoadKernel();
  const CUstream streams[] = {Stream(), Stream(), Stream()};
  Begin();
  for (int i = 0; i < 15; ++i) LaunchFor(function, streams[i % 3], uint64_t{4000});
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_GE(Took(), milliseconds(60));
}

TEST_F(DurationTest, AnErrorOfItsContextEndsIt) {
  const CUfunction function = LoadKernel(), trap = Load(".visible .entry k()\n{ trap; }");
  const CUstream streams[] = {Stream(), Stream()};
  for (const CUstream stream : streams) LaunchFor(function, stream, UINT64_MAX);
  EXPECT_CU(cu(LaunchKernel)(trap, 1, 1, 1, 1, 1, 1, 0, Stream(), nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu(CtxSynchronize)());
  ContextHasFailed();
}

TEST_F(DurationTest, ATextThatNamesNoParameterIsNotLoaded) {
  char log[256] = "";
  CUmodule module = nullptr;
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const char* text = ".version 7.0\n.target sm_70\n.address_size 64\n.entry k()\n.pragma \"tessera_us us\";\n{ ret; }";
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cu(ModuleLoadDataEx)(&module, text, 2, options, values));
  EXPECT_STREQ(log, "ptx line 5: pragma tessera_us names 'us', which is no .u32 or .u64 parameter of a kernel that it stands in");
}

}  // namespace
}  // namespace tessera
