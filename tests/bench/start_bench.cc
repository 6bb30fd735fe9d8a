// How long a program takes from cuInit to its first kernel's end, in parts. One line: milliseconds of cuInit, of the context, of
// loading and launching. tests/bench/start runs it, natively and forwarded.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "protocol/base/clock.h"

namespace {

constexpr char kText[] =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry set(.param .u64 out) {\n"
    "  .reg .u64 %a; ld.param.u64 %a, [out]; cvta.to.global.u64 %a, %a; st.global.u32 [%a], 7; ret;\n}\n";

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "start_bench: %s failed with %d\n", what, result);
  std::exit(1);
}

template <typename Function>
Function* Find(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "start_bench: there is no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(function);
}

}  // namespace

#define FIND(name) Find<decltype(name)>(#name)
#define CALL(name, ...) Check(FIND(name)(__VA_ARGS__), #name)

int main() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  unsigned out = 0;
  void* arguments[] = {&memory};
  FIND(cuInit);  // loading the library is not measured
  const uint64_t begin_ns = tessera::MonotonicNs();
  CALL(cuInit, 0);
  const uint64_t initialized_ns = tessera::MonotonicNs();
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  const uint64_t context_ns = tessera::MonotonicNs();
  Check(Find<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&memory, 4), "cuMemAlloc");
  CALL(cuModuleLoadData, &module, kText);
  CALL(cuModuleGetFunction, &function, module, "set");
  CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
  Check(Find<CUresult(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2")(&out, memory, 4), "cuMemcpyDtoH");
  const uint64_t end_ns = tessera::MonotonicNs();
  if (out != 7) Check(CUDA_ERROR_UNKNOWN, "the kernel");
  const auto ms = [](uint64_t from_ns, uint64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-6; };
  std::printf("%.3f %.3f %.3f\n", ms(begin_ns, initialized_ns), ms(initialized_ns, context_ns), ms(context_ns, end_ns));
}
