// Copies until a call fails, for tests that end one of the two processes in the middle: prints "copying", then what failed.
#include <cuda.h>

#include <vector>

#include "check.h"

int main(int argc, char** argv) {
  const bool pinned = argc > 1 && argv[1][0] == 'p';
  const size_t bytes = size_t{64} << 20;
  CUcontext context;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  std::vector<char> ordinary(pinned ? 0 : bytes);
  void* host = ordinary.data();
  CUdeviceptr device;
  if (pinned) CHECK_DRIVER(cuMemAllocHost(&host, bytes));
  CHECK_DRIVER(cuMemAlloc(&device, bytes));
  CHECK_DRIVER(cuMemcpyHtoD(device, host, bytes));
  std::puts("copying");
  std::fflush(stdout);
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS) {
    result = cuMemcpyHtoD(device, host, bytes);
    if (result == CUDA_SUCCESS) result = cuMemcpyDtoH(host, device, bytes);
  }
  std::printf("ended with %d\n", static_cast<int>(result));
  return 0;
}
