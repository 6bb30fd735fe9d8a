// Several threads of one process: the legacy and the per-thread default stream, and order between threads. Thread A enqueues
// asynchronous work and signals thread B; when B has synchronised, A's work is done.
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

__global__ void Set(int* data, int value) { *data = value; }

// A number that one thread raises and another waits for.
class Number {
 public:
  void Set(int value) {
    std::lock_guard<std::mutex> lock(mutex_);
    value_ = value;
    changed_.notify_one();
  }
  void Await(int value) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return value_ >= value; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int value_ = -1;
};

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20000;
  int *device, *host;
  CHECK_CUDA(cudaMalloc(&device, sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&host, sizeof(int)));
  *host = -1;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  Number enqueued, checked;
  std::thread a([&] {
    for (int i = 0; i < rounds; ++i) {
      CHECK_CUDA(cudaMemsetAsync(device, i & 0x7f, sizeof(int), stream));
      CHECK_CUDA(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
      enqueued.Set(i);
      checked.Await(i);
    }
  });
  std::thread b([&] {
    for (int i = 0; i < rounds; ++i) {
      enqueued.Await(i);
      if (i % 2 == 0) {
        CHECK_CUDA(cudaStreamSynchronize(stream));
      } else {
        CHECK_CUDA(cudaDeviceSynchronize());
      }
      EXPECT_EQ(*host, (i & 0x7f) * 0x01010101);
      checked.Set(i);
    }
  });
  a.join();
  b.join();

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      int* mine;
      CHECK_CUDA(cudaMallocAsync(&mine, sizeof(int), cudaStreamPerThread));
      for (int i = 0; i < 50; ++i) {
        Set<<<1, 1, 0, cudaStreamPerThread>>>(mine, t * 1000 + i);
        int seen = -1;
        CHECK_CUDA(cudaMemcpyAsync(&seen, mine, sizeof(int), cudaMemcpyDeviceToHost, cudaStreamPerThread));
        CHECK_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
        EXPECT_EQ(seen, t * 1000 + i);
      }
      CHECK_CUDA(cudaFreeAsync(mine, cudaStreamPerThread));
      CHECK_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::puts("ok");
  return 0;
}
