// Touches managed memory while a kernel runs that waits for a flag. The flag is set by another thread after so many seconds;
// natively the touch waits for nothing.
//
// usage: managed_wait SECONDS [TOUCHES, 1]
#include <chrono>
#include <thread>

#include "check.h"

__global__ void Wait(volatile int* flag, int* value) {
  while (*flag == 0) {
  }
  *value += 1;
}

int main(int argc, char** argv) {
  const int seconds = std::atoi(argv[1]);
  const int touches = argc > 2 ? std::atoi(argv[2]) : 1;
  int *flag = nullptr, *managed = nullptr, *value = nullptr;
  CHECK_CUDA(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocDefault));
  CHECK_CUDA(cudaMallocManaged(&managed, sizeof(int)));
  CHECK_CUDA(cudaMalloc(&value, sizeof(int)));
  CHECK_CUDA(cudaMemset(value, 0, sizeof(int)));
  for (int i = 0; i < touches; ++i) {
    *flag = 0;
    *managed = i;
    Wait<<<1, 1>>>(flag, value);
    CHECK_CUDA(cudaGetLastError());
    std::thread setter([&] {
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      *static_cast<volatile int*>(flag) = 1;
    });
    EXPECT_EQ(*static_cast<volatile int*>(managed), i);
    setter.join();
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  int done = 0;
  CHECK_CUDA(cudaMemcpy(&done, value, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT_EQ(done, touches);
  std::printf("ok\n");
}
