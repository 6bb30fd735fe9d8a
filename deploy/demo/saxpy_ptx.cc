// The same program against the driver API, with its kernel as PTX text: for machines without nvcc.
#include <cuda.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#define CHECK_CUDA(call)                                    \
  do {                                                      \
    const CUresult error = (call);                          \
    if (error != CUDA_SUCCESS) {                            \
      const char* text = "";                                \
      cuGetErrorString(error, &text);                       \
      std::fprintf(stderr, "%s failed: %s\n", #call, text); \
      return 1;                                             \
    }                                                       \
  } while (false)

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s saxpy.ptx\n", argv[0]);
    return 2;
  }
  std::ifstream file(argv[1]);
  const std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK_CUDA(cuInit(0));
  CUdevice device;
  CHECK_CUDA(cuDeviceGet(&device, 0));
  char name[256];
  int multiprocessors;
  CHECK_CUDA(cuDeviceGetName(name, sizeof(name), device));
  CHECK_CUDA(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  std::printf("device: %s, %d multiprocessors\n", name, multiprocessors);
  CUcontext context;
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CUDA(cuCtxSetCurrent(context));
  CUmodule module;
  CUfunction saxpy;
  CHECK_CUDA(cuModuleLoadData(&module, ptx.c_str()));
  CHECK_CUDA(cuModuleGetFunction(&saxpy, module, "saxpy"));

  int n = 1 << 20;
  float a = 2.0f;
  std::vector<float> x(n), y(n, 1.0f);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
  CUdeviceptr device_x, device_y;
  CHECK_CUDA(cuMemAlloc(&device_x, n * sizeof(float)));
  CHECK_CUDA(cuMemAlloc(&device_y, n * sizeof(float)));
  CHECK_CUDA(cuMemcpyHtoD(device_x, x.data(), n * sizeof(float)));
  CHECK_CUDA(cuMemcpyHtoD(device_y, y.data(), n * sizeof(float)));
  void* parameters[] = {&n, &a, &device_x, &device_y};
  CHECK_CUDA(cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_CUDA(cuMemcpyDtoH(y.data(), device_y, n * sizeof(float)));

  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += y[i] != 2.0f * x[i] + 1.0f;
  std::printf("saxpy of %d elements: %s\n", n, wrong == 0 ? "correct" : "WRONG");
  CHECK_CUDA(cuMemFree(device_x));
  CHECK_CUDA(cuMemFree(device_y));
  CHECK_CUDA(cuModuleUnload(module));
  CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
  return wrong == 0 ? 0 : 1;
}
