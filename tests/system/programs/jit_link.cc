// Links of PTX as programs of the driver API make them: one after the other and two at once, with logs and options whose memory
// is the program's, a link that cannot be completed in between; and a library with options whose text
// is gone after it was loaded.
#include <cuda.h>

#include <cstring>
#include <memory>
#include <string>

#include "check.h"

namespace {

constexpr char kMain[] = R"(
.version 7.0
.target sm_52
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 value);
.extern .global .align 4 .u32 shared_number;
.visible .entry Run(.param .u64 place) {
  .reg .u64 %rd<4>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [place];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, shared_number;
  ld.global.u32 %r1, [%rd3];
  {
    .param .b32 value;
    .param .b32 result;
    st.param.b32 [value], %r1;
    call.uni (result), twice, (value);
    ld.param.b32 %r2, [result];
  }
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

constexpr char kHelp[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 shared_number = 21;
.visible .func (.param .b32 result) twice(.param .b32 value) {
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
)";

constexpr char kTell[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 number = 5;
.visible .entry Tell(.param .u64 place) {
  .reg .u64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [place];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [number];
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

constexpr char kWrong[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry Broken() {
  .reg .b32 %r<2>;
  add.u33 %r1, %r1, 1;
  ret;
}
)";

// Logs and options that live as long as this, and no longer.
struct Options {
  static constexpr unsigned kCount = 6;
  char info[4096] = {};
  char error[4096] = {};
  CUjit_option names[kCount] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_LOG_VERBOSE,      CU_JIT_MAX_REGISTERS};
  void* values[kCount] = {info,
                          reinterpret_cast<void*>(sizeof(info)),
                          error,
                          reinterpret_cast<void*>(sizeof(error)),
                          reinterpret_cast<void*>(1),
                          reinterpret_cast<void*>(32)};
};

struct Link {
  Link() { CHECK_DRIVER(cuLinkCreate(Options::kCount, options->names, options->values, &state)); }
  ~Link() { CHECK_DRIVER(cuLinkDestroy(state)); }
  // From memory that is gone when it returns.
  CUresult Add(const std::string& text, const std::string& name) {
    return cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()), text.size() + 1, name.c_str(), 0, nullptr,
                         nullptr);
  }
  CUmodule Load() {
    void* image = nullptr;
    size_t bytes = 0;
    CHECK_DRIVER(cuLinkComplete(state, &image, &bytes));
    EXPECT_EQ(bytes != 0, true);
    EXPECT_EQ(reinterpret_cast<size_t>(options->values[1]) < sizeof(options->info), true);
    CUmodule module;
    CHECK_DRIVER(cuModuleLoadData(&module, image));
    return module;
  }
  std::unique_ptr<Options> options = std::make_unique<Options>();
  CUlinkState state = nullptr;
};

CUdeviceptr place;

unsigned Run(CUfunction function) {
  void* arguments[] = {&place};
  CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  unsigned value = 0;
  CHECK_DRIVER(cuMemcpyDtoH(&value, place, sizeof(value)));
  return value;
}

unsigned RunAndUnload(CUmodule module) {
  CUfunction function;
  CHECK_DRIVER(cuModuleGetFunction(&function, module, "Run"));
  int registers = 0;
  CHECK_DRIVER(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
  EXPECT_EQ(registers <= 32, true);
  const unsigned value = Run(function);
  CHECK_DRIVER(cuModuleUnload(module));
  return value;
}

void Whole() {
  CUmodule module;
  {
    Link link;
    CHECK_DRIVER(link.Add(kMain, "main.ptx"));
    CHECK_DRIVER(link.Add(kHelp, "help.ptx"));
    module = link.Load();
  }
  EXPECT_EQ(RunAndUnload(module), 42u);
}

// A symbol that no input has: the link fails, and its log says which.
void WithoutASymbol() {
  Link link;
  CUresult result = link.Add(kMain, "main.ptx");
  void* image = nullptr;
  size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = cuLinkComplete(link.state, &image, &bytes);
  EXPECT_EQ(result != CUDA_SUCCESS, true);
  const bool named =
      std::strstr(link.options->error, "twice") != nullptr || std::strstr(link.options->error, "shared_number") != nullptr;
  EXPECT_EQ(named, true);
}

// A mistake in an input, in a link and in a module.
void WithAMistake() {
  Link link;
  CUresult result = link.Add(kWrong, "wrong.ptx");
  EXPECT_EQ(result, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(std::strstr(link.options->error, "u33") != nullptr, true);
  Options options;
  CUmodule module;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kWrong, 5, options.names, options.values), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(std::strstr(options.error, "u33") != nullptr, true);
}

void TwoAtOnce() {
  Link one;
  auto two = std::make_unique<Link>();
  CHECK_DRIVER(one.Add(kMain, "main.ptx"));
  CHECK_DRIVER(two->Add(kHelp, "help.ptx"));
  CHECK_DRIVER(one.Add(kHelp, "help.ptx"));
  CHECK_DRIVER(two->Add(kMain, "main.ptx"));
  EXPECT_EQ(RunAndUnload(two->Load()), 42u);
  two = nullptr;
  EXPECT_EQ(RunAndUnload(one.Load()), 42u);
}

void Library() {
  auto text = std::make_unique<std::string>(kTell);
  auto options = std::make_unique<Options>();
  CUlibrary library;
  CHECK_DRIVER(cuLibraryLoadData(&library, text->c_str(), options->names, options->values, 5, nullptr, nullptr, 0));
  std::memset(text->data(), 'x', text->size());
  text = nullptr;
  CUkernel kernel;
  CHECK_DRIVER(cuLibraryGetKernel(&kernel, library, "Tell"));
  EXPECT_EQ(Run(reinterpret_cast<CUfunction>(kernel)), 5u);
  CHECK_DRIVER(cuLibraryUnload(library));
}

}  // namespace

int main() {
  CUcontext context;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuMemAlloc(&place, sizeof(unsigned)));
  for (int i = 0; i < 3; ++i) {
    Whole();
    WithoutASymbol();
    WithAMistake();
    TwoAtOnce();
    Library();
  }
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(0));
  std::printf("ok\n");
}
