// A kernel that never ends by itself: for tests that kill its client or its worker.
#include <cstdio>

#include "ptx_program.h"

namespace {

constexpr const char* kSpin = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 stop)
{
  .reg .pred %p;
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [stop];
again:
  ld.volatile.global.u32 %r, [%rd];
  setp.eq.u32 %p, %r, 0;
  @%p bra again;
  ret;
}
)";

}  // namespace

int main() {
  const CUfunction spin = LoadKernel(kSpin, "spin");
  CUdeviceptr stop;
  CHECK_DRIVER(cuMemAlloc(&stop, sizeof(int)));
  CHECK_DRIVER(cuMemsetD32(stop, 0, 1));
  CHECK_DRIVER(cuCtxSynchronize());
  void* parameters[] = {&stop};
  CHECK_DRIVER(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  std::puts("spinning");
  std::fflush(stdout);
  const CUresult result = cuCtxSynchronize();
  std::printf("ended with %d\n", static_cast<int>(result));
  return result == CUDA_SUCCESS ? 1 : 0;
}
