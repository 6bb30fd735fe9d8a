// A thread captures, in relaxed mode and on a stream that has nothing to do with the legacy one; another thread does meanwhile
// what it may, such as asking the legacy stream whether it is idle. The capture knows nothing of it.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "check.h"

int main() {
  CUcontext context;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  constexpr size_t kBytes = 4096;
  CUdeviceptr captured, beside;
  CHECK_DRIVER(cuMemAlloc(&captured, kBytes));
  CHECK_DRIVER(cuMemAlloc(&beside, kBytes));
  std::atomic<bool> end{false};
  std::thread other([&] {
    CHECK_DRIVER(cuCtxSetCurrent(context));
    unsigned char host[kBytes];
    while (!end) {
      CHECK_DRIVER(cuMemsetD8Async(beside, 1, kBytes, CU_STREAM_LEGACY));
      CUresult answer = CUDA_ERROR_NOT_READY;
      while (answer == CUDA_ERROR_NOT_READY) answer = cuStreamQuery(CU_STREAM_LEGACY);
      CHECK_DRIVER(answer);
      CHECK_DRIVER(cuMemsetD8Async(beside, 2, kBytes, CU_STREAM_PER_THREAD));
      CHECK_DRIVER(cuMemcpyDtoH(host, beside, kBytes));
      CHECK_DRIVER(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
  });
  for (int round = 0; round < 300; ++round) {
    CUgraph graph;
    CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_DRIVER(cuMemsetD8Async(captured, 1, kBytes, stream));
    CHECK_DRIVER(cuMemsetD8Async(captured, 2, kBytes, stream));
    CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
    CHECK_DRIVER(cuGraphDestroy(graph));
  }
  end = true;
  other.join();
  std::printf("ok\n");
}
