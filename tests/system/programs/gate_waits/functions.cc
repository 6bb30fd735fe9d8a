// Host functions: launches behind one, and what it asks meanwhile.
#include <atomic>
#include <thread>

#include "cases.h"
#include "parts.h"

namespace gate_waits {

namespace {

// A host function that waits until it is let go on, or for half a second: a driver may stop launches behind it before the last
// one.
struct Gate {
  std::atomic<bool> open{false};
  void Await() const {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
    while (!open.load() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

void Functions() {
  const CUstream stream = NewStream();
  const Words words;
  Gate gate;
  CHECK_DRIVER(cuLaunchHostFunc(
      stream, [](void* user) { static_cast<Gate*>(user)->Await(); }, &gate));
  constexpr uint32_t kLaunches = 10'000;
  for (uint32_t i = 0; i < kLaunches; ++i) SetFlag(stream, words.at(kFlag), i + 1);
  gate.open = true;
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kFlag), kLaunches);
  CHECK_DRIVER(cuStreamDestroy(stream));
}

// All that a host function may ask, of its own stream and of another one, while launches wait behind it.
struct Asking {
  CUstream own, other;
  CUevent begun, ended;
  CUresult own_event = CUDA_ERROR_UNKNOWN, own_stream = CUDA_ERROR_UNKNOWN, other_event = CUDA_ERROR_UNKNOWN,
           waited = CUDA_ERROR_UNKNOWN, recorded = CUDA_ERROR_UNKNOWN;
  std::atomic<bool> asked{false};
};
void CUDA_CB Ask(void* user) {
  Asking& asking = *static_cast<Asking*>(user);
  asking.own_event = cuEventQuery(asking.ended);
  asking.own_stream = cuStreamQuery(asking.own);
  while ((asking.other_event = cuEventQuery(asking.begun)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  asking.waited = cuStreamSynchronize(asking.other);
  asking.recorded = cuEventRecord(asking.begun, asking.other);
  if (asking.recorded == CUDA_SUCCESS) asking.recorded = cuEventSynchronize(asking.begun);
  asking.asked = true;
}

void Aside() {
  const Words words;
  words.Write(kFlag, 1);
  Asking asking;
  asking.own = NewStream();
  asking.other = NewStream();
  Learn(asking.own);
  CHECK_DRIVER(cuEventCreate(&asking.begun, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuEventCreate(&asking.ended, CU_EVENT_DISABLE_TIMING));
  Step(asking.other, words.at(kFlag), words.at(kOther));
  CHECK_DRIVER(cuEventRecord(asking.begun, asking.other));
  // Recorded anew behind the function: it sees that one undone.
  CHECK_DRIVER(cuStreamWaitValue32(asking.own, words.at(kFlag), 2, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK_DRIVER(cuLaunchHostFunc(asking.own, Ask, &asking));
  CHECK_DRIVER(cuEventRecord(asking.ended, asking.own));
  SetFlag(asking.other, words.at(kFlag), 2);
  for (uint32_t i = 0; i < options.launches; ++i) Step(asking.own, words.at(kFlag), words.at(kSum));
  CHECK_DRIVER(cuStreamSynchronize(asking.own));
  EXPECT_EQ(asking.asked.load(), true);
  EXPECT_EQ(asking.own_event, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(asking.own_stream, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(asking.other_event, CUDA_SUCCESS);
  EXPECT_EQ(asking.waited, CUDA_SUCCESS);
  EXPECT_EQ(asking.recorded, CUDA_SUCCESS);
  EXPECT_EQ(words.Read(kSum), options.launches);
  EXPECT_EQ(words.Read(kOther), 1u);
  CHECK_DRIVER(cuEventDestroy(asking.begun));
  CHECK_DRIVER(cuEventDestroy(asking.ended));
  CHECK_DRIVER(cuStreamDestroy(asking.own));
  CHECK_DRIVER(cuStreamDestroy(asking.other));
}

}  // namespace

bool RunFunctions(const std::string& name) {
  if (name == "functions") return Functions(), true;
  if (name == "aside") return Aside(), true;
  return false;
}

}  // namespace gate_waits
