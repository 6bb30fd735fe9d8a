#include "parts.h"

#include <cstdio>
#include <cstring>

#include "../ptx_program.h"

namespace gate_waits {

Options options;

namespace {

constexpr const char* kKernels = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 flag, .param .u64 sum, .param .u64 duration, .param .u64 spin_ns)
.pragma "tessera_us duration";
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd0, [flag];
  ld.param.u64 %rd1, [sum];
  ld.param.u64 %rd2, [spin_ns];
  ld.volatile.global.u32 %r0, [%rd0];
  setp.eq.u32 %p, %r0, 0;
  @%p bra spin;
  ld.volatile.global.u32 %r1, [%rd1];
  add.u32 %r1, %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
spin:
  setp.eq.u64 %p, %rd2, 0;
  @%p bra done;
  mov.u64 %rd3, %globaltimer;
again:
  mov.u64 %rd4, %globaltimer;
  sub.u64 %rd4, %rd4, %rd3;
  setp.lt.u64 %p, %rd4, %rd2;
  @%p bra again;
done:
  ret;
}
.visible .entry await(.param .u64 flag, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %r<2>;
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  ld.param.u32 %r0, [value];
again:
  ld.volatile.global.u32 %r1, [%rd];
  setp.lt.u32 %p, %r1, %r0;
  @%p bra again;
  ret;
}
.visible .entry set(.param .u64 flag, .param .u32 value)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  ld.param.u32 %r, [value];
  membar.sys;
  st.volatile.global.u32 [%rd], %r;
  ret;
}
)";

struct Kernels {
  CUfunction step, await, set;
  bool emulated = false;
} kernels;

void LoadKernels() {
  kernels.step = LoadKernel(kKernels, "step");
  CUmodule module;
  CHECK_DRIVER(cuFuncGetModule(&module, kernels.step));
  CHECK_DRIVER(cuModuleGetFunction(&kernels.await, module, "await"));
  CHECK_DRIVER(cuModuleGetFunction(&kernels.set, module, "set"));
  char name[100] = {};
  CHECK_DRIVER(cuDeviceGetName(name, sizeof(name), 0));
  kernels.emulated = std::strstr(name, "emulated") != nullptr;
}

void Launch(CUfunction function, CUstream stream, void** parameters) {
  CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

void UseAll() {
  const Words words;
  SetFlag(nullptr, words.at(kFlag), 1);
  AwaitFlag(nullptr, words.at(kFlag), 1);
  Step(nullptr, words.at(kFlag), words.at(kSum), 0);
  CHECK_DRIVER(cuCtxSynchronize());
  EXPECT_EQ(words.Read(kSum), 1u);
}

}  // namespace

void LoadAll() {
  LoadKernels();
  UseAll();
}

void Step(CUstream stream, CUdeviceptr flag, CUdeviceptr sum, uint64_t duration_us) {
  uint64_t spin_ns = kernels.emulated ? 0 : duration_us * 1000;  // a GPU does not know the pragma
  void* parameters[] = {&flag, &sum, &duration_us, &spin_ns};
  Launch(kernels.step, stream, parameters);
}
void AwaitFlag(CUstream stream, CUdeviceptr flag, uint32_t value) {
  void* parameters[] = {&flag, &value};
  Launch(kernels.await, stream, parameters);
}
void SetFlag(CUstream stream, CUdeviceptr flag, uint32_t value) {
  void* parameters[] = {&flag, &value};
  Launch(kernels.set, stream, parameters);
}

CUstream NewStream() {
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

Words::Words() {
  CHECK_DRIVER(cuMemAlloc(&base, 4096));
  CHECK_DRIVER(cuMemsetD32(base, 0, 1024));
  CHECK_DRIVER(cuCtxSynchronize());
}

Words::~Words() { CHECK_DRIVER(cuMemFree(base)); }

uint32_t Words::Read(int i) const {
  uint32_t value = 0;
  CHECK_DRIVER(cuMemcpyDtoH(&value, at(i), sizeof(value)));
  return value;
}

void Words::Write(int i, uint32_t value) const {
  CHECK_DRIVER(cuMemsetD32(at(i), value, 1));
  CHECK_DRIVER(cuCtxSynchronize());
}

void Learn(CUstream stream) {
  const Words words;
  words.Write(kFlag, 1);
  for (int i = 0; i < 3; ++i) {
    Step(stream, words.at(kFlag), words.at(kSum));
    CHECK_DRIVER(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(words.Read(kSum), 3u);
}

void AwaitLine(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
  char line[100];
  if (std::fgets(line, sizeof(line), stdin) == nullptr) std::fputs("no line\n", stderr);
}

}  // namespace gate_waits
