// Occupies the emulated device: launches KERNELS kernels of DURATION µs each, in one stream or in STREAMS in turns, and says how
// many µs it took until all had ended.
//
// usage: occupy KERNELS DURATION [STREAMS]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ptx_program.h"

namespace {

constexpr const char* kOccupy = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry occupy(.param .u64 duration)
.pragma "tessera_us duration";
{
  ret;
}
)";

}  // namespace

int main(int argc, char** argv) {
  const size_t kernels = argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 1;
  uint64_t duration_us = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1000;
  const CUfunction occupy = LoadKernel(kOccupy, "occupy");
  std::vector<CUstream> streams(argc > 3 ? std::strtoul(argv[3], nullptr, 0) : 1);
  for (CUstream& stream : streams) CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::puts("begins");
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  void* parameters[] = {&duration_us};
  for (size_t i = 0; i < kernels; ++i) {
    CHECK_DRIVER(cuLaunchKernel(occupy, 1, 1, 1, 1, 1, 1, 0, streams[i % streams.size()], parameters, nullptr));
  }
  CHECK_DRIVER(cuCtxSynchronize());
  const auto took = std::chrono::steady_clock::now() - begin;
  std::printf("%lld\n", static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  return 0;
}
