// Works on two GPUs in lockstep: each step launches a kernel of DURATION µs on both, and waits for both. Says how many steps it
// has done, now and then, until it is ended.
//
// usage: lockstep DURATION [FIRST]   FIRST: the GPU that each step begins with, 0 or 1
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "occupy_kernel.h"
#include "ptx_program.h"

namespace {

struct Part {
  CUcontext context = nullptr;
  CUfunction occupy = nullptr;
};

Part MakePart(int number) {
  Part part;
  CUdevice device = 0;
  CUmodule module = nullptr;
  CHECK_DRIVER(cuDeviceGet(&device, number));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&part.context, device));
  CHECK_DRIVER(cuCtxSetCurrent(part.context));
  CHECK_DRIVER(cuModuleLoadData(&module, kOccupy));
  CHECK_DRIVER(cuModuleGetFunction(&part.occupy, module, "occupy"));
  return part;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t duration_us = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1000;
  const int first = argc > 2 ? std::atoi(argv[2]) : 0;
  CHECK_DRIVER(cuInit(0));
  const Part parts[] = {MakePart(first), MakePart(1 - first)};
  std::puts("begins");
  std::fflush(stdout);
  void* parameters[] = {&duration_us};
  auto said = std::chrono::steady_clock::now();
  for (uint64_t steps = 1;; ++steps) {
    for (const Part& part : parts) {
      CHECK_DRIVER(cuCtxSetCurrent(part.context));
      CHECK_DRIVER(cuLaunchKernel(part.occupy, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    }
    for (const Part& part : parts) {
      CHECK_DRIVER(cuCtxSetCurrent(part.context));
      CHECK_DRIVER(cuCtxSynchronize());
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - said < std::chrono::milliseconds(100)) continue;
    said = now;
    std::printf("%llu\n", static_cast<unsigned long long>(steps));
    std::fflush(stdout);
  }
}
