// What the driver writes for a failing kernel goes to this process's stderr, and no further than natively.
// usage: device_errors assert | trap | print_and_copy | print_before_assert
#include <unistd.h>

#include <cassert>
#include <cstring>

#include "check.h"

__global__ void Fails(int value) { assert(value == 7 && "as the test wants it"); }
__global__ void Traps() { __trap(); }
__global__ void Prints(int value) { printf("printed %d\n", value); }

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (std::strcmp(what, "print_and_copy") == 0) {
    int* device;
    int host = 1;
    CHECK_CUDA(cudaMalloc(&device, sizeof(host)));
    Prints<<<1, 1>>>(1);
    CHECK_CUDA(cudaMemcpy(&host, device, sizeof(host), cudaMemcpyDeviceToHost));
    _exit(0);  // whatever the copy did not make the driver write is lost
  }
  if (std::strcmp(what, "print_before_assert") == 0) Prints<<<1, 1>>>(2);
  if (std::strcmp(what, "trap") == 0) {
    Traps<<<1, 1>>>();
  } else {
    Fails<<<1, 2>>>(1);
  }
  std::printf("ended with %d\n", static_cast<int>(cudaDeviceSynchronize()));
  return 0;
}
