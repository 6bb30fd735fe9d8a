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

// The driver's functions: those of cudart need a current context, which a host function has not.
struct Asking {
  cudaStream_t own, other;
  cudaEvent_t event;
  cudaError_t (*query_event)(cudaEvent_t);
  cudaError_t (*query_stream)(cudaStream_t);
  std::atomic<bool> all_launched{false};
  bool own_was_busy = true, ended = false;
};
static void CUDART_CB AskUntilDone(void* user) {
  auto* asking = static_cast<Asking*>(user);
  while (!asking->all_launched.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (asking->query_event(asking->event) == cudaErrorNotReady) {
    asking->own_was_busy = asking->own_was_busy && asking->query_stream(asking->own) == cudaErrorNotReady;
  }
  asking->ended = asking->query_event(asking->event) == cudaSuccess && asking->query_stream(asking->other) == cudaSuccess;
}
template <typename Function>
static void Find(const char* name, Function* function) {
  cudaDriverEntryPointQueryResult found;
  CHECK_CUDA(cudaGetDriverEntryPointByVersion(name, reinterpret_cast<void**>(function), 12000, cudaEnableDefault, &found));
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

  // The function itself asks, about an event of another stream and about its own stream, while they pile up.
  Asking asking;
  asking.own = stream;
  Find("cuEventQuery", &asking.query_event);
  Find("cuStreamQuery", &asking.query_stream);
  CHECK_CUDA(cudaStreamCreateWithFlags(&asking.other, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreate(&asking.event));
  for (int i = 0; i < 100; ++i) Set<<<1, 1, 0, asking.other>>>(device, i);
  CHECK_CUDA(cudaEventRecord(asking.event, asking.other));
  CHECK_CUDA(cudaLaunchHostFunc(stream, AskUntilDone, &asking));
  // A driver may block here before the last one: then the function is let go on by a thread.
  std::thread let_go([&asking] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    asking.all_launched = true;
  });
  for (int i = 0; i < 10000; ++i) Set<<<1, 1, 0, stream>>>(device, i);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  let_go.join();
  EXPECT_EQ(asking.ended, true);
  EXPECT_EQ(asking.own_was_busy, true);
  CHECK_CUDA(cudaStreamDestroy(asking.other));
  CHECK_CUDA(cudaEventDestroy(asking.event));
  CHECK_CUDA(cudaStreamDestroy(stream));
  std::puts("ok");
  return 0;
}
