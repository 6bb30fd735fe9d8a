// The context of one server's device breaks while a stream of another server's waits for its event and copies from it: that
// stream goes on, its thread hears of it, and the other device works as before. With an argument the fault comes after the wait.
#include <cuda_runtime.h>

#include <atomic>
#include <thread>

#include "check.h"

__global__ void store(int* to) { *to = 5; }

std::atomic<bool> open_gate{false};
void wait_for_gate(void*) {
  while (!open_gate) std::this_thread::yield();
}

int main(int argc, char**) {
  cudaStream_t streams[2];
  int* memory[2];
  cudaEvent_t event;
  for (int device = 0; device < 2; ++device) {
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&memory[device], 4096));
  }
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  store<<<1, 1, 0, streams[1]>>>(memory[1]);
  CHECK_CUDA(cudaStreamSynchronize(streams[1]));
  if (argc > 1) CHECK_CUDA(cudaLaunchHostFunc(streams[1], wait_for_gate, nullptr));
  store<<<1, 1, 0, streams[1]>>>(nullptr);
  cudaEventRecord(event, streams[1]);
  CHECK_CUDA(cudaSetDevice(0));
  // Whether these succeed depends on whether the fault is known by then.
  const cudaError_t waits = cudaStreamWaitEvent(streams[0], event, 0);
  const cudaError_t copies = cudaMemcpyPeerAsync(memory[0], 0, memory[1], 1, 4096, streams[0]);
  open_gate = true;
  const cudaError_t hears = cudaStreamSynchronize(streams[0]);
  EXPECT_EQ(waits != cudaSuccess || copies != cudaSuccess || hears == cudaErrorDevicesUnavailable, true);
  // At most once for each of the two.
  for (int i = 0; i < 2 && cudaStreamSynchronize(streams[0]) != cudaSuccess; ++i) {
  }
  cudaGetLastError();
  CHECK_CUDA(cudaStreamSynchronize(streams[0]));
  store<<<1, 1, 0, streams[0]>>>(memory[0]);
  CHECK_CUDA(cudaStreamSynchronize(streams[0]));
  int value = 0;
  CHECK_CUDA(cudaMemcpy(&value, memory[0], sizeof(value), cudaMemcpyDeviceToHost));
  EXPECT_EQ(value, 5);
  CHECK_CUDA(cudaSetDevice(1));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  std::printf("ok\n");
}
