// Modules, libraries, launches, occupancy, linking.
#include <dlfcn.h>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

using CodeTest = DriverTest;

TEST_F(CodeTest, KernelRunsOverAWholeGrid) {
  const int count = 10000;
  const CUdeviceptr from = Allocate(count * 4), to = Allocate(count * 4);
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i;
  Write(from, values);
  EXPECT_CU(Launch("scale", (count + 127) / 128, 128, nullptr, from, to, count, 3));
  const std::vector<int> result = Read(to, count);
  for (int i = 0; i < count; ++i) ASSERT_EQ(3 * i, result[static_cast<size_t>(i)]);
}

TEST_F(CodeTest, PackedParametersDoTheSame) {
  const CUdeviceptr to = Allocate(4);
  struct {
    CUdeviceptr to;
    int value;
  } packed{to, 77};
  size_t size = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  EXPECT_CU(cu(LaunchKernel)(Function("store"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(77, ReadOne(to));
}

TEST_F(CodeTest, LaunchLimitsAreChecked) {
  CUdeviceptr to = Allocate(4);
  int value = 1;
  void* params[] = {&to, &value};
  const CUfunction store = Function("store");
  auto launch = [&](unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared) {
    return cu(LaunchKernel)(store, grid_x, grid_y, 1, block_x, 1, block_z, shared, nullptr, params, nullptr);
  };
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(0, 1, 1, 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 0, 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(1, 65536, 1, 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1025, 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1024, 2, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1, 1, 49153));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu(LaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(launch(1, 1, 1, 1, 0));
}

TEST_F(CodeTest, DynamicSharedMemoryBeyondTheDefaultMustBeAllowed) {
  CUdeviceptr to = Allocate(4);
  void* params[] = {&to};
  const CUfunction function = Function("shared_sum");
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 256, 1, 1, 1024, nullptr, params, nullptr));
  EXPECT_EQ(255 * 128, ReadOne(to));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(LaunchKernel)(function, 1, 1, 1, 256, 1, 1, 100000, nullptr, params, nullptr));
  EXPECT_CU(cu(FuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 256, 1, 1, 100000, nullptr, params, nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(FuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20));
}

TEST_F(CodeTest, VariablesHaveAddressesAndInitialValues) {
  CUdeviceptr counter = 0;
  size_t size = 0;
  EXPECT_CU(cu(ModuleGetGlobal_v2)(&counter, &size, Module(), "counter"));
  EXPECT_EQ(4u, size);
  EXPECT_EQ(5, ReadOne(counter));
  Write(counter, {7});
  const CUdeviceptr to = Allocate(4);
  EXPECT_CU(Launch("use_globals", 1, 1, nullptr, to));
  EXPECT_EQ(21, ReadOne(to));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu(ModuleGetGlobal_v2)(&counter, &size, Module(), "nothing"));
}

TEST_F(CodeTest, FunctionsDescribeThemselves) {
  const CUfunction function = Function("scale");
  const char* name = nullptr;
  EXPECT_CU(cu(FuncGetName)(&name, function));
  EXPECT_STREQ("scale", name);
  size_t offset = 0, size = 0;
  EXPECT_CU(cu(FuncGetParamInfo)(function, 3, &offset, &size));
  EXPECT_EQ(20u, offset);
  EXPECT_EQ(4u, size);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu(FuncGetParamInfo)(function, 4, &offset, &size));
  unsigned count = 0;
  EXPECT_CU(cu(ModuleGetFunctionCount)(&count, Module()));
  EXPECT_EQ(9u, count);
  std::vector<CUfunction> functions(count);
  EXPECT_CU(cu(ModuleEnumerateFunctions)(functions.data(), count, Module()));
  EXPECT_NE(functions.end(), std::find(functions.begin(), functions.end(), function));
  CUfunction none = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu(ModuleGetFunction)(&none, Module(), "nothing"));
}

TEST_F(CodeTest, LibraryKernelsLaunchThroughTheirOwnHandle) {
  CUlibrary library = nullptr;
  ASSERT_CU(cu(LibraryLoadData)(&library, KernelText().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  ASSERT_CU(cu(LibraryGetKernel)(&kernel, library, "store"));
  CUdeviceptr to = Allocate(4);
  int value = 12;
  void* params[] = {&to, &value};
  EXPECT_CU(cu(LaunchKernel)(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(12, ReadOne(to));
  CUfunction function = nullptr;
  EXPECT_CU(cu(KernelGetFunction)(&function, kernel));
  value = 13;
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(13, ReadOne(to));
  int threads = 0;
  EXPECT_CU(cu(KernelGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device_));
  EXPECT_EQ(1024, threads);
  CUdeviceptr counter = 0;
  size_t size = 0;
  EXPECT_CU(cu(LibraryGetGlobal)(&counter, &size, library, "counter"));
  EXPECT_EQ(5, ReadOne(counter));
  EXPECT_CU(cu(LibraryUnload)(library));
  if (Emulated()) {
    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu(LibraryGetKernel)(&kernel, library, "store"));
  }
}

TEST_F(CodeTest, ManagedVariablesAreOneForAllContextsAndKeepWhatTheHostWrote) {
  constexpr const char* kText =
      ".version 8.0\n.target sm_75\n.address_size 64\n"
      ".visible .global .attribute(.managed) .align 4 .u32 amount = 9;\n"
      ".visible .entry bump() {\n.reg .u32 %r<2>;\n"
      "ld.global.u32 %r1, [amount];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [amount], %r1;\nret;\n}\n";
  CUlibrary library = nullptr;
  ASSERT_CU(cu(LibraryLoadData)(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUdeviceptr address = 0;
  size_t size = 0;
  ASSERT_CU(cu(LibraryGetManaged)(&address, &size, library, "amount"));
  EXPECT_EQ(4u, size);
  auto* const amount = reinterpret_cast<volatile int*>(address);
  EXPECT_EQ(9, *amount);
  *amount = 20;  // before the library is in any context
  CUkernel kernel = nullptr;
  ASSERT_CU(cu(LibraryGetKernel)(&kernel, library, "bump"));
  ASSERT_CU(cu(LaunchKernel)(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  ASSERT_CU(cu(CtxSynchronize)());
  EXPECT_EQ(21, *amount);
  unsigned managed = 0;
  EXPECT_CU(cu(PointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  EXPECT_EQ(1u, managed);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu(LibraryGetManaged)(&address, &size, library, "bump"));
  EXPECT_CU(cu(LibraryUnload)(library));
}

TEST_F(CodeTest, BadTextFillsTheErrorLog) {
  char log[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX,
            cu(ModuleLoadDataEx)(&module, ".version 8.0\n.target sm_75\n.address_size 64\nnonsense here;\n", 2, options, values));
  EXPECT_NE(0, log[0]);
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND, cu(ModuleLoad)(&module, "/nonexistent.ptx"));
}

TEST_F(CodeTest, UnknownInstructionFailsTheLaunchOnly) {
  if (!Emulated()) GTEST_SKIP();
  CUmodule module = nullptr;
  ASSERT_CU(cu(ModuleLoadData)(&module,
                               ".version 8.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry strange()\n{\n  frobnicate.b32;\n  ret;\n}\n"));
  CUfunction function = nullptr;
  ASSERT_CU(cu(ModuleGetFunction)(&function, module, "strange"));
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_CU(cu(CtxSynchronize)());
}

TEST_F(CodeTest, LinkedTextsFindEachOther) {
  const char* callee = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 shared_number = 31;\n";
  const char* caller =
      ".version 8.0\n.target sm_75\n.address_size 64\n.extern .global .align 4 .u32 shared_number;\n"
      ".visible .entry read_number(.param .u64 to)\n{\n  .reg .b64 %rd<2>;\n  .reg .b32 %r<2>;\n"
      "  ld.param.u64 %rd0, [to];\n  cvta.to.global.u64 %rd1, %rd0;\n  ld.global.u32 %r0, [shared_number];\n"
      "  st.global.u32 [%rd1], %r0;\n  ret;\n}\n";
  CUlinkState link = nullptr;
  ASSERT_CU(cu(LinkCreate_v2)(0, nullptr, nullptr, &link));
  for (const char* text : {caller, callee}) {
    EXPECT_CU(cu(LinkAddData_v2)(link, CU_JIT_INPUT_PTX, const_cast<char*>(text), strlen(text) + 1, "text", 0, nullptr, nullptr));
  }
  void* image = nullptr;
  size_t size = 0;
  ASSERT_CU(cu(LinkComplete)(link, &image, &size));
  CUmodule module = nullptr;
  ASSERT_CU(cu(ModuleLoadData)(&module, image));
  EXPECT_CU(cu(LinkDestroy)(link));
  CUfunction function = nullptr;
  ASSERT_CU(cu(ModuleGetFunction)(&function, module, "read_number"));
  CUdeviceptr to = Allocate(4);
  void* params[] = {&to};
  EXPECT_CU(cu(LaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(31, ReadOne(to));
}

TEST_F(CodeTest, PrintfTextAppearsAtSynchronisation) {
  testing::internal::CaptureStdout();
  EXPECT_CU(Launch("print_number", 1, 1, nullptr, 17));
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_EQ("number 17\n", testing::internal::GetCapturedStdout());
}

TEST_F(CodeTest, CooperativeGridMustFit) {
  CUdeviceptr to = Allocate(4);
  int value = 3;
  void* params[] = {&to, &value};
  EXPECT_CU(cu(LaunchCooperativeKernel)(Function("store"), 2, 1, 1, 32, 1, 1, 0, nullptr, params));
  EXPECT_EQ(3, ReadOne(to));
  EXPECT_EQ(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cu(LaunchCooperativeKernel)(Function("store"), 1 << 20, 1, 1, 32, 1, 1, 0, nullptr, params));
}

TEST_F(CodeTest, OccupancyFollowsTheBlockSize) {
  int blocks = 0;
  EXPECT_CU(cu(OccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, Function("store"), 1024, 0));
  EXPECT_EQ(2, blocks);
  EXPECT_CU(cu(OccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, Function("store"), 32, 0));
  EXPECT_EQ(32, blocks);
  int grid = 0, block = 0;
  EXPECT_CU(cu(OccupancyMaxPotentialBlockSize)(&grid, &block, Function("store"), nullptr, 0, 0));
  EXPECT_EQ(1024, block);
}

TEST_F(CodeTest, ProcAddressKnowsVersions) {
  if (!Emulated()) GTEST_SKIP();
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  EXPECT_CU(cu(GetProcAddress_v2)("cuMemAlloc", &function, 13000, 0, &status));
  EXPECT_EQ(DriverSymbol("cuMemAlloc_v2"), function);
  EXPECT_CU(cu(GetProcAddress_v2)("cuCtxSynchronize", &function, 12080, 0, &status));
  EXPECT_EQ(DriverSymbol("cuCtxSynchronize"), function);
  EXPECT_CU(cu(GetProcAddress_v2)("cuCtxSynchronize", &function, 13000, 0, &status));
  EXPECT_EQ(DriverSymbol("cuCtxSynchronize_v2"), function);
  EXPECT_CU(cu(GetProcAddress_v2)("cuNothing", &function, 13000, 0, &status));
  EXPECT_EQ(nullptr, function);
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
}

}  // namespace
}  // namespace tessera
