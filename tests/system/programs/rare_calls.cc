// Calls that hardly a program makes any more, and what the driver answers: the forms with 32-bit addresses, the settings of
// core dumps, the profiler's configuration, code for both processors.
#define __CUDA_API_VERSION_INTERNAL  // unsuffixed names are the forms of before CUDA 3.2
#include <cuda.h>
#include <cudaProfiler.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"

namespace {

#define EXPECT_CODE(call, code) EXPECT_EQ(static_cast<int>(call), static_cast<int>(code))

void BeforeInitialisation() {
  CUdeviceptr_v1 address = 7;
  EXPECT_CODE(cuMemAlloc(&address, 16), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CODE(cuMemFree(7), CUDA_ERROR_NOT_INITIALIZED);
  CUtexref reference;
  EXPECT_CODE(cuTexRefCreate(&reference), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CODE(cuProfilerInitialize("configuration", "output", CU_OUT_CSV), CUDA_ERROR_NOT_SUPPORTED);
}

// A context of CUDA 3.2 or later is none to the forms of before.
void NarrowForms() {
  CUdeviceptr_v1 address = 7;
  unsigned free = 7, total = 7;
  unsigned char bytes[16] = {};
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR_v1 descriptor{16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  EXPECT_CODE(cuMemAlloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(address, 0u);
  EXPECT_CODE(cuMemGetInfo(&free, &total), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(free + total, 0u);
  EXPECT_CODE(cuMemcpyHtoD(16, bytes, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemcpyDtoH(bytes, 16, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemcpyHtoDAsync(16, bytes, 4, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemsetD8(16, 0, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemsetD2D8(16, 4, 0, 1, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuArrayCreate(&array, &descriptor), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemFree(16), CUDA_ERROR_INVALID_CONTEXT);
  void* host = nullptr;
  EXPECT_CODE(cuMemAllocHost(&host, 16), CUDA_ERROR_INVALID_CONTEXT);
  // Those whose numbers need no context answer as ever.
  CHECK_DRIVER(cuDeviceTotalMem(&total, 0));
  size_t total_bytes = 0;
  CHECK_DRIVER(cuDeviceTotalMem_v2(&total_bytes, 0));
  EXPECT_EQ(total, static_cast<unsigned>(total_bytes < 0xFFFFFFFF ? total_bytes : 0xFFFFFFFF));
}

void CoreDumps() {
  bool on = true;
  size_t size = 0;
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, nullptr, &size));
  EXPECT_EQ(size, sizeof(on));
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
  EXPECT_EQ(on, false);
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &size));
  EXPECT_EQ(on, true);
  int flags = CU_COREDUMP_SKIP_ABORT;
  size = 2;
  EXPECT_CODE(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size), CUDA_ERROR_INVALID_VALUE);
  size = sizeof(flags);
  CHECK_DRIVER(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  char name[1024] = "", file[] = "/tmp/core_of_%p";
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &size));
  EXPECT_EQ(size, sizeof(name));
  CHECK_DRIVER(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, file, &size));
  size = sizeof(name);
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size));
  EXPECT_EQ(std::string(name) == "/tmp/core_of_" + std::to_string(getpid()), true);
  size = 4;
  EXPECT_CODE(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuCoredumpGetAttributeGlobal(CUcoredumpSettings(99), name, &size), CUDA_ERROR_INVALID_VALUE);
  size = sizeof(on);
  EXPECT_CODE(cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_USER_TRIGGER, &on, &size), CUDA_ERROR_INVALID_VALUE);
  on = true;
  CHECK_DRIVER(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &size));
  CHECK_DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &on, &size));
  EXPECT_EQ(on, false);  // that of the context alone was set
  CHECK_DRIVER(cuCtxSetCurrent(nullptr));
  EXPECT_CODE(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &size), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace

int main() {
  BeforeInitialisation();
  CHECK_DRIVER(cuInit(0));
  CUdeviceptr_v1 address = 0;
  EXPECT_CODE(cuMemAlloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CODE(cuMemFree(16), CUDA_ERROR_INVALID_VALUE);
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuProfilerStart());
  CHECK_DRIVER(cuProfilerStop());
  NarrowForms();
  CoreDumps();
  EXPECT_CODE(cuProfilerInitialize(nullptr, nullptr, CU_OUT_KEY_VALUE_PAIR), CUDA_ERROR_NOT_SUPPORTED);
  std::printf("ok\n");
}
