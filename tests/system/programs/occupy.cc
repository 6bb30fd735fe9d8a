// Occupies the emulated device: launches KERNELS kernels of DURATION µs each, in one stream or in STREAMS in turns (0: each in
// one of its own that is destroyed at once, one after the other), and says how many µs it took until all had ended. PAUSE: behind
// each kernel stands a host function that takes so many µs. With `stay` as the last word it stays until its stdin ends.
//
// usage: occupy KERNELS DURATION [STREAMS [PAUSE]] [stay]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "occupy_kernel.h"
#include "ptx_program.h"

namespace {

void CUDA_CB Pause(void* duration_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(*static_cast<uint64_t*>(duration_us)));
}

}  // namespace

int main(int argc, char** argv) {
  const bool stays = argc > 1 && std::strcmp(argv[argc - 1], "stay") == 0;
  if (stays) --argc;
  const size_t kernels = argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 1;
  uint64_t duration_us = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1000;
  const CUfunction occupy = LoadKernel(kOccupy, "occupy");
  std::vector<CUstream> streams(argc > 3 ? std::strtoul(argv[3], nullptr, 0) : 1);
  uint64_t pause_us = argc > 4 ? std::strtoul(argv[4], nullptr, 0) : 0;
  for (CUstream& stream : streams) CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::puts("begins");
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  void* parameters[] = {&duration_us};
  for (size_t i = 0; i < kernels; ++i) {
    CUstream stream = nullptr;
    if (streams.empty())
      CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    else
      stream = streams[i % streams.size()];
    CHECK_DRIVER(cuLaunchKernel(occupy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
    if (pause_us != 0) CHECK_DRIVER(cuLaunchHostFunc(stream, Pause, &pause_us));
    if (streams.empty()) {
      CHECK_DRIVER(cuStreamDestroy(stream));
      CHECK_DRIVER(cuCtxSynchronize());
    }
  }
  CHECK_DRIVER(cuCtxSynchronize());
  const auto took = std::chrono::steady_clock::now() - begin;
  std::printf("%lld\n", static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  if (!stays) return 0;
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
