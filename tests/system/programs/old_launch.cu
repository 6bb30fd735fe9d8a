// A program of the time of CUDA 3: driver API, one call per launch setting. Vector addition against a reference.
#include <cuda.h>

#include <cstddef>
#include <vector>

#include "check.h"

static const char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .f32 scale) {
  .reg .u64 %rd<8>;
  .reg .u32 %r<6>;
  .reg .f32 %f<5>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [scale];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 ret;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd6, %rd2, %rd4;
  add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f2, [%rd5];
  ld.global.f32 %f3, [%rd6];
  fma.rn.f32 %f4, %f2, %f1, %f3;
  st.global.f32 [%rd7], %f4;
  ret;
}
)";

int main() {
  CHECK_DRIVER(cuInit(0));
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CUmodule module;
  CUfunction add;
  CHECK_DRIVER(cuModuleLoadData(&module, kPtx));
  CHECK_DRIVER(cuModuleGetFunction(&add, module, "add"));

  const int n = 10000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(3 * i);
  CUdeviceptr device[3];
  for (CUdeviceptr& p : device) CHECK_DRIVER(cuMemAlloc(&p, n * sizeof(float)));
  CHECK_DRIVER(cuMemcpyHtoD(device[0], a.data(), n * sizeof(float)));
  CHECK_DRIVER(cuMemcpyHtoD(device[1], b.data(), n * sizeof(float)));

  int offset = 0;
  for (CUdeviceptr& p : device) {
    CHECK_DRIVER(cuParamSetv(add, offset, &p, sizeof(p)));
    offset += sizeof(p);
  }
  CHECK_DRIVER(cuParamSeti(add, offset, n));
  CHECK_DRIVER(cuParamSetf(add, offset + 4, 0.5f));
  CHECK_DRIVER(cuParamSetSize(add, offset + 8));
  CHECK_DRIVER(cuFuncSetBlockShape(add, 128, 1, 1));
  CHECK_DRIVER(cuFuncSetSharedSize(add, 0));
  CHECK_DRIVER(cuLaunchGrid(add, (n + 127) / 128, 1));
  CHECK_DRIVER(cuMemcpyDtoH(c.data(), device[2], n * sizeof(float)));
  for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], 0.5f * a[i] + b[i]);

  // On a stream, with one parameter changed.
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuParamSetf(add, offset + 4, 2.0f));
  CHECK_DRIVER(cuLaunchGridAsync(add, (n + 127) / 128, 1, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  CHECK_DRIVER(cuMemcpyDtoH(c.data(), device[2], n * sizeof(float)));
  for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], 2.0f * a[i] + b[i]);
  // The parameters as one buffer, of which a launch may leave out the last ones: they are 0. It must not be longer.
  struct {
    CUdeviceptr arrays[3];
    int count;
    float scale;
    int more[4];
  } parameters = {{device[0], device[1], device[2]}, n, 0.5f, {}};
  const auto launch = [&](size_t bytes) {
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    return static_cast<int>(cuLaunchKernel(add, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  };
  EXPECT_EQ(launch(0), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(launch(sizeof(parameters)), static_cast<int>(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
  EXPECT_EQ(launch(offsetof(decltype(parameters), more)), static_cast<int>(CUDA_SUCCESS));
  CHECK_DRIVER(cuMemcpyDtoH(c.data(), device[2], n * sizeof(float)));
  for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], 0.5f * a[i] + b[i]);
  EXPECT_EQ(launch(offsetof(decltype(parameters), scale)), static_cast<int>(CUDA_SUCCESS));
  CHECK_DRIVER(cuMemcpyDtoH(c.data(), device[2], n * sizeof(float)));
  for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], b[i]);
  std::puts("ok");
}
