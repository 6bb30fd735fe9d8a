// NVRTC compiles at run time; the driver API loads the PTX it made.
#include <cuda.h>
#include <nvrtc.h>

#include <string>
#include <vector>

#include "check.h"

#define CHECK_NVRTC(call)                                                                                    \
  do {                                                                                                       \
    const nvrtcResult nvrtc_result = (call);                                                                 \
    if (nvrtc_result != NVRTC_SUCCESS) {                                                                     \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, nvrtcGetErrorString(nvrtc_result)); \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (false)

int main() {
  const char* source = R"(
    extern "C" __global__ void scan(const int* in, int* out, int n) {
      __shared__ int values[256];
      const int i = threadIdx.x;
      values[i] = i < n ? in[i] : 0;
      __syncthreads();
      for (int d = 1; d < 256; d *= 2) {
        const int add = i >= d ? values[i - d] : 0;
        __syncthreads();
        values[i] += add;
        __syncthreads();
      }
      if (i < n) out[i] = values[i];
    })";
  nvrtcProgram program;
  CHECK_NVRTC(nvrtcCreateProgram(&program, source, "scan.cu", 0, nullptr, nullptr));
  const char* options[] = {"--gpu-architecture=compute_80"};
  CHECK_NVRTC(nvrtcCompileProgram(program, 1, options));
  size_t bytes;
  CHECK_NVRTC(nvrtcGetPTXSize(program, &bytes));
  std::string ptx(bytes, '\0');
  CHECK_NVRTC(nvrtcGetPTX(program, ptx.data()));

  CHECK_DRIVER(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuCtxCreate(&context, nullptr, 0, device));
  CUmodule module;
  CUfunction scan;
  char log[4096] = "";
  CUjit_option jit_options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* jit_values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  CHECK_DRIVER(cuModuleLoadDataEx(&module, ptx.c_str(), 2, jit_options, jit_values));
  CHECK_DRIVER(cuModuleGetFunction(&scan, module, "scan"));
  int n = 200;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = i % 5;
  CUdeviceptr device_in, device_out;
  CHECK_DRIVER(cuMemAlloc(&device_in, n * sizeof(int)));
  CHECK_DRIVER(cuMemAlloc(&device_out, n * sizeof(int)));
  CHECK_DRIVER(cuMemcpyHtoD(device_in, in.data(), n * sizeof(int)));
  void* parameters[] = {&device_in, &device_out, &n};
  CHECK_DRIVER(cuLaunchKernel(scan, 1, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_DRIVER(cuMemcpyDtoH(out.data(), device_out, n * sizeof(int)));
  int sum = 0;
  for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], sum += in[i]);
  CHECK_DRIVER(cuMemFree(device_in));
  CHECK_DRIVER(cuMemFree(device_out));
  CHECK_DRIVER(cuModuleUnload(module));
  CHECK_DRIVER(cuCtxDestroy(context));
  std::puts("ok");
  return 0;
}
