// A library with three functions of a driver, steered by the environment, for loader_test.
#include <cuda.h>

#include <cstdlib>

static int Number(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT CUresult CUDAAPI cuInit(unsigned int flags) { return static_cast<CUresult>(Number("FAKE_INIT_RESULT")); }
FAKE_EXPORT CUresult CUDAAPI cuDeviceGetCount(int* count) {
  *count = Number("FAKE_DEVICE_COUNT");
  return CUDA_SUCCESS;
}
FAKE_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  *text = "words for it";
  return CUDA_SUCCESS;
}
