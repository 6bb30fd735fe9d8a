// Host functions: in stream order, behind and before GPU work, in great number, and with launches piling up behind one.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

__global__ void Set(int* data, int value) { *data = value; }

struct Record {
  std::vector<int> seen;
  int* host;
};
static void CUDART_CB Append(void* user) {
  auto* record = static_cast<Record*>(user);
  record->seen.push_back(*record->host);
}

static std::atomic<bool> may_end{false};
static void CUDART_CB WaitForMain(void*) {
  while (!may_end.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  int device = -1;
  // Allowed nowhere in a host function: must be refused, not hang.
  if (cudaGetDevice(&device) != cudaSuccess && device != -1) std::exit(3);
}

int main() {
  int *device, *host;
  CHECK_CUDA(cudaMalloc(&device, sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&host, sizeof(int)));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  Record record{{}, host};
  const int rounds = 300;
  for (int i = 0; i < rounds; ++i) {
    Set<<<1, 1, 0, stream>>>(device, i);
    CHECK_CUDA(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaLaunchHostFunc(stream, Append, &record));
  }
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(record.seen.size(), size_t{rounds});
  for (int i = 0; i < rounds; ++i) EXPECT_EQ(record.seen[i], i);

  // Launches behind a host function that waits for this thread: the driver's queue fills up, and nothing may deadlock.
  CHECK_CUDA(cudaLaunchHostFunc(stream, WaitForMain, nullptr));
  std::thread release([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    may_end = true;
  });
  for (int i = 0; i < 10000; ++i) Set<<<1, 1, 0, stream>>>(device, i);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  release.join();
  CHECK_CUDA(cudaMemcpy(host, device, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT_EQ(*host, 9999);
  CHECK_CUDA(cudaStreamDestroy(stream));
  std::puts("ok");
  return 0;
}
