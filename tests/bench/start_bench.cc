// How long a program takes from cuInit to its first kernel's end, in parts. One line: milliseconds of cuInit, of the context,
// of loading and launching. tests/bench/start runs it, natively and forwarded.
#include <cuda.h>

#include <cstdio>

#include "protocol/base/clock.h"
#include "tests/system/programs/check.h"

namespace {

constexpr char kText[] =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry set(.param .u64 out) {\n"
    "  .reg .u64 %a; ld.param.u64 %a, [out]; cvta.to.global.u64 %a, %a; st.global.u32 [%a], 7; ret;\n}\n";

}  // namespace

int main() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  unsigned out = 0;
  void* arguments[] = {&memory};
  const uint64_t begin_ns = tessera::MonotonicNs();
  CHECK_DRIVER(cuInit(0));
  const uint64_t initialized_ns = tessera::MonotonicNs();
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  const uint64_t context_ns = tessera::MonotonicNs();
  CHECK_DRIVER(cuMemAlloc(&memory, 4));
  CHECK_DRIVER(cuModuleLoadData(&module, kText));
  CHECK_DRIVER(cuModuleGetFunction(&function, module, "set"));
  CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK_DRIVER(cuMemcpyDtoH(&out, memory, sizeof(out)));
  const uint64_t end_ns = tessera::MonotonicNs();
  EXPECT_EQ(out, 7u);
  const auto ms = [](uint64_t from_ns, uint64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-6; };
  std::printf("%.3f %.3f %.3f\n", ms(begin_ns, initialized_ns), ms(initialized_ns, context_ns), ms(context_ns, end_ns));
}
