// What the programs here work with: a context, kernels that do nothing and one that works, a stream, memory that holds data. They
// are ordinary programs of libcuda.so.1: the machine's own, or the one that `tessera run` puts before it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "tests/system/programs/check.h"

namespace tessera {

// Host memory as the driver sees it.
enum class HostKind { kPinned, kPageable, kRegistered };

struct GpuAtHand {
  // Launches in a row after which one must synchronise: the driver takes about a thousand before a launch waits for the GPU.
  static constexpr int kLaunchesMax = 200;

  CUcontext context = nullptr;
  CUfunction three_arguments = nullptr;
  CUfunction block_of_2048 = nullptr;
  CUfunction loops = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;  // recorded, and done
  // As large as the largest Reserve() so far.
  CUdeviceptr memory = 0;
  char* pinned = nullptr;
  std::unique_ptr<char[]> pageable;
  std::unique_ptr<char[]> registered;  // from its first use on
  size_t bytes = 0;

  GpuAtHand() {
    constexpr char kKernels[] = R"(
.version 7.8
.target sm_75
.address_size 64
.visible .entry three(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }
.visible .entry many(.param .align 8 .b8 p[2048]) { ret; }
.visible .entry loops(.param .u64 out, .param .u32 n)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, 1;
AGAIN:
  mad.lo.s32 %r2, %r2, 1664525, 1013904223;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  setp.eq.u32 %p2, %r2, 12345;
  @%p2 st.global.u32 [%rd1], %r2;
  ret;
}
)";
    CUmodule module;
    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    CHECK_DRIVER(cuModuleLoadData(&module, kKernels));
    CHECK_DRIVER(cuModuleGetFunction(&three_arguments, module, "three"));
    CHECK_DRIVER(cuModuleGetFunction(&block_of_2048, module, "many"));
    CHECK_DRIVER(cuModuleGetFunction(&loops, module, "loops"));
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK_DRIVER(cuEventRecord(event, stream));
    Synchronize();
    Reserve(size_t{1} << 20);
  }

  // Memory of at least so many bytes, of each kind, all of it written: pages that nobody wrote are copied faster than data.
  void Reserve(size_t wanted) {
    if (wanted <= bytes) return;
    if (memory != 0) {
      CHECK_DRIVER(cuMemFree(memory));
      CHECK_DRIVER(cuMemFreeHost(pinned));
      if (registered != nullptr) CHECK_DRIVER(cuMemHostUnregister(registered.get()));
      registered.reset();
    }
    bytes = wanted;
    CHECK_DRIVER(cuMemAlloc(&memory, bytes));
    CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&pinned), bytes));
    pageable.reset(new char[bytes]);
    uint64_t state = 1;
    for (size_t i = 0; i < bytes; i += sizeof(state)) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const uint64_t word = state ^ state >> 33;
      std::memcpy(pinned + i, &word, sizeof(word));
    }
    std::memcpy(pageable.get(), pinned, bytes);
    CHECK_DRIVER(cuMemcpyHtoD(memory, pinned, bytes));
  }

  void Launch() {
    uint64_t a = 0, b = 0;
    uint32_t n = 0;
    void* parameters[] = {&a, &b, &n};
    CHECK_DRIVER(cuLaunchKernel(three_arguments, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  }
  // A kernel that works for so many turns of a loop, some 10 ns each on a GPU.
  void Loop(uint32_t turns) {
    void* parameters[] = {&memory, &turns};
    CHECK_DRIVER(cuLaunchKernel(loops, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  void Synchronize() { CHECK_DRIVER(cuStreamSynchronize(stream)); }

  char* Host(HostKind kind) {
    if (kind == HostKind::kPinned) return pinned;
    if (kind == HostKind::kPageable) return pageable.get();
    if (registered == nullptr) {
      registered.reset(new char[bytes]);
      std::memcpy(registered.get(), pinned, bytes);
      CHECK_DRIVER(cuMemHostRegister(registered.get(), bytes, 0));
    }
    return registered.get();
  }
  // Enqueued only, where the memory is pinned or registered.
  void Copy(bool to_device, HostKind kind, size_t copied) {
    char* const host = Host(kind);
    if (to_device) {
      CHECK_DRIVER(cuMemcpyHtoDAsync(memory, host, copied, stream));
    } else {
      CHECK_DRIVER(cuMemcpyDtoHAsync(host, memory, copied, stream));
    }
  }
};

}  // namespace tessera
