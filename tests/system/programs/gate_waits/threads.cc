// What other threads call while launches wait.
#include <atomic>
#include <thread>
#include <vector>

#include "cases.h"
#include "parts.h"

namespace gate_waits {

namespace {

// Calls of other threads stand behind the launches of this one, and are answered.
void Threads() {
  const CUstream stream = NewStream();
  const Words words, memory;
  Learn(stream);
  CUcontext context;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  std::atomic<bool> ends{false};
  std::atomic<uint32_t> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      CHECK_DRIVER(cuCtxSetCurrent(context));
      const CUstream own = NewStream();
      CUevent event;
      CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
      uint32_t value = 0;
      while (!ends.load()) {
        const CUresult asked = cuStreamQuery(stream);
        EXPECT_EQ(asked == CUDA_SUCCESS || asked == CUDA_ERROR_NOT_READY, true);
        CHECK_DRIVER(cuMemsetD32Async(memory.at(i), ++value, 1, own));
        CHECK_DRIVER(cuEventRecord(event, own));
        CHECK_DRIVER(cuEventSynchronize(event));
        EXPECT_EQ(memory.Read(i), value);
        ++answered;
      }
      CHECK_DRIVER(cuEventDestroy(event));
      CHECK_DRIVER(cuStreamDestroy(own));
    });
  }
  CHECK_DRIVER(cuStreamWaitValue32(stream, words.at(kFlag), 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (uint32_t i = 0; i < options.launches; ++i) Step(stream, words.at(kFlag), words.at(kSum));
  const uint32_t before = answered;
  while (answered < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const CUstream other = NewStream();
  SetFlag(other, words.at(kFlag), 1);
  CHECK_DRIVER(cuStreamSynchronize(stream));
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(words.Read(kSum), options.launches);
  CHECK_DRIVER(cuStreamDestroy(other));
  CHECK_DRIVER(cuStreamDestroy(stream));
}

}  // namespace

bool RunThreads(const std::string& name) {
  if (name != "threads") return false;
  Threads();
  return true;
}

}  // namespace gate_waits
