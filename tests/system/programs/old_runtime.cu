// A runtime of the kind that CUDA 10 and 11 had, in small: it registers the fat binary that nvcc embeds, loads it as a module
// through slots of the runtime's hidden table, and launches with cuLaunchKernel. Built without a cudart.
#include <cuda.h>

#include <cstring>

#include "check.h"

struct Wrapper {  // what nvcc puts into .nvFatBinSegment
  unsigned magic, version;
  const void* fat_binary;
  void* more;
};
static Wrapper* registered;
static char kernel_name[256];  // this program has one kernel
static CUmodule module;

static struct {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
} pushed;

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper) {
  registered = static_cast<Wrapper*>(wrapper);
  return reinterpret_cast<void**>(&registered);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char*, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  std::strncpy(kernel_name, name, sizeof(kernel_name) - 1);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st* stream) {
#ifndef __CUDA_ARCH__  // the headers declare it for both sides
  pushed = {grid, block, shared_bytes, stream};
#endif
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = pushed.grid, *block = pushed.block, *shared_bytes = pushed.shared_bytes;
  std::memcpy(stream, &pushed.stream, sizeof(pushed.stream));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3 block, void** parameters, size_t shared_bytes, cudaStream_t stream) {
  CUfunction function;
  CHECK_DRIVER(cuModuleGetFunction(&function, module, kernel_name));
  CHECK_DRIVER(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared_bytes),
                              stream, parameters, nullptr));
  return cudaSuccess;
}
#if CUDART_VERSION >= 12000  // nvcc's launches ask for the kernel first
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** parameters, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, parameters, shared_bytes, stream);
}
#endif
}  // extern "C"

__device__ int factor = 3;
__global__ void multiply(int* values, int by) { values[threadIdx.x] *= by * factor; }

static void UseModule(const char* how) {
  CUdeviceptr values, at;
  size_t bytes = 0;
  int host[4] = {1, 2, 3, 4};
  CHECK_DRIVER(cuMemAlloc(&values, sizeof(host)));
  CHECK_DRIVER(cuMemcpyHtoD(values, host, sizeof(host)));
  CHECK_DRIVER(cuModuleGetGlobal(&at, &bytes, module, "factor"));
  EXPECT_EQ(bytes, sizeof(int));
  const int five = 5;
  multiply<<<1, 4>>>(reinterpret_cast<int*>(values), 2);
  CHECK_DRIVER(cuMemcpyHtoD(at, &five, sizeof(five)));
  multiply<<<1, 4>>>(reinterpret_cast<int*>(values), 1);
  CHECK_DRIVER(cuMemcpyDtoH(host, values, sizeof(host)));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(host[i], (i + 1) * 30);
  CHECK_DRIVER(cuMemFree(values));
  CHECK_DRIVER(cuModuleUnload(module));
  std::printf("%s\n", how);
}

int main() {
  CHECK_DRIVER(cuInit(0));
  const unsigned char id_bytes[16] = {0x6B, 0xD5, 0xFB, 0x6C, 0x5B, 0xF4, 0xE7, 0x4A,
                                      0x89, 0x87, 0xD9, 0x39, 0x12, 0xFD, 0x9D, 0xF9};
  CUuuid id;
  std::memcpy(&id, id_bytes, sizeof(id));
  const void* found = nullptr;
  CHECK_DRIVER(cuGetExportTable(&found, &id));
  const auto* table = static_cast<void* const*>(found);
  const auto load = reinterpret_cast<CUresult (*)(CUmodule*, const void*)>(table[1]);
  const auto load_with_symbols = reinterpret_cast<CUresult (*)(CUmodule*, const void*, void*, void*, unsigned)>(table[6]);
  const auto forget = reinterpret_cast<CUresult (*)(CUmodule)>(table[7]);
  const auto load_bare = reinterpret_cast<CUresult (*)(const void*, CUmodule*, void*, void*, unsigned)>(table[8]);

  EXPECT_EQ(static_cast<int>(load(&module, registered)), 201);  // no context
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  EXPECT_EQ(static_cast<int>(load(&module, registered->fat_binary)), 1);  // not a wrapper
  CHECK_DRIVER(load(&module, registered));
  UseModule("slot 1");
  CHECK_DRIVER(load_with_symbols(&module, registered, nullptr, nullptr, 0));
  CHECK_DRIVER(forget(module));
  UseModule("slot 6");
  if (registered->version > 1) {  // built with -rdc=true: the bare fat binary has one architecture's machine code
    std::printf("ok\n");
    return 0;
  }
  CHECK_DRIVER(load_bare(registered->fat_binary, &module, nullptr, nullptr, 0));
  UseModule("slot 8");
  CHECK_DRIVER(cuModuleLoadFatBinary(&module, registered->fat_binary));
  UseModule("cuModuleLoadFatBinary");
  EXPECT_EQ(static_cast<int>(cuModuleLoadData(&module, registered)), 200);  // takes no wrapper
  std::printf("ok\n");
}
