// A program like a training: a thousand steps of batches that go to the device, kernels that change weights with them, and now
// and then a loss that comes back; what it prints depends on every byte and on the order of everything.
//
//   train [STEPS]
//
// Prints one line that is equal in every run with as many steps; "lost CODE (line N)" and 3 when a call fails.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

// weights[i] = weights[i] * rate + batch[i % batch_count] * weights[(i + 1) % count] in another buffer: floats, so that the order
// counts.
constexpr const char* kStep = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 to, .param .u64 from, .param .u64 batch, .param .u32 count, .param .u32 batch_count, .param .f32 rate)
{
  .reg .pred %p;
  .reg .b32 %r<10>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.param.u64 %rd3, [batch];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [batch_count];
  ld.param.f32 %f1, [rate];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r1;
  @%p ret;
  add.u32 %r7, %r6, 1;
  rem.u32 %r7, %r7, %r1;
  rem.u32 %r8, %r6, %r2;
  mul.wide.u32 %rd4, %r6, 4;
  mul.wide.u32 %rd5, %r7, 4;
  mul.wide.u32 %rd6, %r8, 4;
  add.s64 %rd7, %rd2, %rd4;
  add.s64 %rd8, %rd2, %rd5;
  add.s64 %rd9, %rd3, %rd6;
  add.s64 %rd10, %rd1, %rd4;
  ld.global.f32 %f2, [%rd7];
  ld.global.f32 %f3, [%rd8];
  ld.global.f32 %f4, [%rd9];
  mul.f32 %f5, %f2, %f1;
  fma.rn.f32 %f5, %f4, %f3, %f5;
  st.global.f32 [%rd10], %f5;
  ret;
}
)";

constexpr uint32_t kWeights = 4096;
constexpr uint32_t kBatch = 3000;
constexpr uint32_t kBlock = 128;
constexpr int kLaunches = 4;  // a step
constexpr int kLossEvery = 8;

void Check(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  std::printf("lost %d (line %d)\n", static_cast<int>(result), line);
  std::exit(3);
}
#define CHECK(call) Check((call), __LINE__)

// FNV-1a.
uint64_t Mix(uint64_t hash, const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  return hash;
}

float Next(uint32_t& state) {
  state = state * 1664525 + 1013904223;
  return static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  CUcontext context;
  CUmodule module;
  CUfunction step;
  CUstream stream;
  CUdeviceptr weights[2];
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, kStep));
  CHECK(cuModuleGetFunction(&step, module, "step"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (CUdeviceptr& one : weights) CHECK(cuMemAlloc(&one, kWeights * sizeof(float)));
  uint32_t state = 1;
  std::vector<float> host(kWeights);
  for (float& weight : host) weight = Next(state);
  CHECK(cuMemcpyHtoD(weights[0], host.data(), kWeights * sizeof(float)));
  float* pinned;
  CHECK(cuMemAllocHost(reinterpret_cast<void**>(&pinned), kBatch * sizeof(float)));
  std::puts("training");
  std::fflush(stdout);

  uint64_t hash = 0xcbf29ce484222325;
  int current = 0;
  std::vector<float> batch(kBatch);
  for (int i = 0; i < steps; ++i) {
    for (float& value : batch) value = Next(state);
    CUdeviceptr device;
    CHECK(cuMemAllocAsync(&device, kBatch * sizeof(float), stream));
    if (i % 4 == 3) {
      CHECK(cuStreamSynchronize(stream));  // the copy before has read it
      std::memcpy(pinned, batch.data(), kBatch * sizeof(float));
      CHECK(cuMemcpyHtoDAsync(device, pinned, kBatch * sizeof(float), stream));
    } else {
      CHECK(cuMemcpyHtoDAsync(device, batch.data(), kBatch * sizeof(float), stream));
    }
    for (int launch = 0; launch < kLaunches; ++launch) {
      uint32_t count = kWeights, batch_count = kBatch - static_cast<uint32_t>(launch);
      float rate = 0.957f;  // the weights neither vanish nor grow
      void* parameters[] = {&weights[1 - current], &weights[current], &device, &count, &batch_count, &rate};
      CHECK(cuLaunchKernel(step, kWeights / kBlock, 1, 1, kBlock, 1, 1, 0, stream, parameters, nullptr));
      current = 1 - current;
    }
    CHECK(cuMemFreeAsync(device, stream));
    if (i % kLossEvery == 0 || i + 1 == steps) {
      CHECK(cuMemcpyDtoHAsync(host.data(), weights[current], kWeights * sizeof(float), stream));
      CHECK(cuStreamSynchronize(stream));
      hash = Mix(hash, host.data(), kWeights * sizeof(float));
    }
  }
  std::printf("%d steps: %016llx\n", steps, static_cast<unsigned long long>(hash));
  return 0;
}
