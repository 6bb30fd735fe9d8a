// Modules from PTX text as programs of the driver API use them: managed variables that are asked for as any variable, and what a
// kernel printed is there when its module or context goes, without a call that waits.
#include <cuda.h>

#include <string>

#include "check.h"

namespace {

constexpr char kVariables[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .attribute(.managed) .u32 first = 10;
.visible .global .align 4 .attribute(.managed) .u32 second = 100;
.visible .global .align 4 .u32 ordinary = 7;
.visible .entry Add(.param .u64 place) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<3>;
  ld.param.u64 %rd1, [place];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r1, %r1, 20;
  st.global.u32 [%rd2], %r1;
  ld.global.u32 %r2, [second];
  add.u32 %r2, %r2, 30;
  st.global.u32 [second], %r2;
  ret;
}
)";

// Prints "printed" and the end of the line.
constexpr char kPrinting[] = R"(
.version 7.0
.target sm_52
.address_size 64
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[9] = {112, 114, 105, 110, 116, 101, 100, 10, 0};
.visible .entry Print() {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  {
    .param .b64 format;
    .param .b64 arguments;
    .param .b32 result;
    st.param.b64 [format], %rd2;
    st.param.b64 [arguments], 0;
    call.uni (result), vprintf, (format, arguments);
    ld.param.b32 %r1, [result];
  }
  ret;
}
)";

unsigned IsManaged(CUdeviceptr address) {
  unsigned managed = 9;
  CHECK_DRIVER(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  return managed;
}

int* Variable(CUmodule module, const char* name) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  CHECK_DRIVER(cuModuleGetGlobal(&address, &bytes, module, name));
  EXPECT_EQ(bytes, sizeof(int));
  EXPECT_EQ(IsManaged(address), 1u);
  int* host = nullptr;
  CHECK_DRIVER(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
  return host;
}

void Managed(CUmodule module) {
  int* first = Variable(module, "first");
  int* second = Variable(module, "second");
  CUdeviceptr ordinary = 0;
  CHECK_DRIVER(cuModuleGetGlobal(&ordinary, nullptr, module, "ordinary"));
  EXPECT_EQ(IsManaged(ordinary), 0u);
  EXPECT_EQ(*first, 10);
  EXPECT_EQ(*second, 100);
  *first += 1;
  *second += 11;
  CUfunction add;
  CHECK_DRIVER(cuModuleGetFunction(&add, module, "Add"));
  for (int round = 1; round <= 3; ++round) {
    void* arguments[] = {&first};
    CHECK_DRIVER(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK_DRIVER(cuCtxSynchronize());
    EXPECT_EQ(*first, 11 + 20 * round);
    EXPECT_EQ(*second, 111 + 30 * round);
  }
}

CUmodule Load(const char* text) {
  CUmodule module;
  CHECK_DRIVER(cuModuleLoadDataEx(&module, text, 0, nullptr, nullptr));
  return module;
}

void LaunchPrint(CUmodule module) {
  CUfunction print;
  CHECK_DRIVER(cuModuleGetFunction(&print, module, "Print"));
  CHECK_DRIVER(cuLaunchKernel(print, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

}  // namespace

int main() {
  CHECK_DRIVER(cuInit(0));
  for (int round = 0; round < 2; ++round) {
    CUcontext context;
    CHECK_DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
    CUmodule module = Load(kVariables);
    Managed(module);
    CHECK_DRIVER(cuModuleUnload(module));
    module = Load(kVariables);  // anew, with its first values
    Managed(module);
    CUmodule printing = Load(kPrinting);
    std::printf("round %d\n", round);
    LaunchPrint(printing);
    if (round == 0) {
      CHECK_DRIVER(cuModuleUnload(printing));
      std::printf("unloaded\n");
    }
    CHECK_DRIVER(cuCtxDestroy(context));
    std::printf("destroyed\n");
  }
  std::printf("ok\n");
}
