// Small copies to pinned memory over a channel whose ends share no pages, with both ends in one process, on the emulator: no
// visit of the stream, and nothing that is heard before the bytes.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

// The server's driver as it is, but for what a test says.
std::atomic<bool> events_are_never_done{false};
std::atomic<bool> words_are_refused{false};
std::atomic<bool> slots_are_refused{false};
std::atomic<int> slots_refused{0};
decltype(DriverTable::cuEventQuery) query_event = nullptr;
decltype(DriverTable::cuStreamWriteValue64_v2) write_word = nullptr;
decltype(DriverTable::cuMemHostRegister_v2) register_memory = nullptr;

void Change(DriverTable& driver) {
  query_event = driver.cuEventQuery;
  driver.cuEventQuery = [](CUevent event) { return events_are_never_done ? CUDA_ERROR_NOT_READY : query_event(event); };
  write_word = driver.cuStreamWriteValue64_v2;
  driver.cuStreamWriteValue64_v2 = [](CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return words_are_refused ? CUDA_ERROR_INVALID_VALUE : write_word(stream, address, value, flags);
  };
  register_memory = driver.cuMemHostRegister_v2;
  driver.cuMemHostRegister_v2 = [](void* memory, size_t bytes, unsigned flags) {
    // Neither the words of visits nor segments are of such a size.
    const bool slots = bytes > 2 << 20 && bytes < 3 << 20;
    if (!slots || !slots_are_refused) return register_memory(memory, bytes, flags);
    ++slots_refused;
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
}

// Numbers that visits and host functions have got so far.
uint64_t NumbersGiven() {
  const uint64_t number = HostFunctionsOfProcess().Add(HostFunction{});
  HostFunctionsOfProcess().Drop(number);
  return number;
}

class DeliveryTest : public testing::Test {
 protected:
  static constexpr int kInts = 100;

  static void SetUpTestSuite() {
    setenv("TESSERA_TEST_CHANNEL", "mirrored", 1);
    static BothEnds ends(Change);
  }
  void SetUp() override {
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&device_, kInts * sizeof(int)), CUDA_SUCCESS);
    void* memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, kInts * sizeof(int), 0), CUDA_SUCCESS);
    pinned_ = static_cast<volatile int*>(memory);
    for (int i = 0; i < kInts; ++i) pinned_[i] = -1;
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(const_cast<int*>(pinned_)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  }
  // Writes `value` on the device and copies it to pinned_[i].
  void Copy(int value, int i) {
    ASSERT_EQ(cuMemsetD32Async(device_, static_cast<unsigned>(value), kInts, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(const_cast<int*>(pinned_ + i), device_, sizeof(int), stream_), CUDA_SUCCESS);
  }
  // While the reader of replies may be writing it, which ThreadSanitizer would report.
  __attribute__((no_sanitize("thread"))) int Look(int i) const { return pinned_[i]; }

  CUstream stream_ = nullptr;
  CUdeviceptr device_ = 0;
  volatile int* pinned_ = nullptr;
};

TEST_F(DeliveryTest, NeedsNoVisit) {
  const uint64_t before = NumbersGiven();
  for (int i = 0; i < kInts; ++i) Copy(i, i);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  for (int i = 0; i < kInts; ++i) EXPECT_EQ(pinned_[i], i);
  EXPECT_EQ(NumbersGiven(), before + 1);
}

TEST_F(DeliveryTest, ThreadsFindTheirOwn) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      CUstream stream = nullptr;
      CUevent event = nullptr;
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
      volatile int* const own = pinned_ + 2 * k;
      for (int round = 1; round <= kRounds; ++round) {
        const CUdeviceptr word = device_ + 2 * k * sizeof(int);
        EXPECT_EQ(cuMemsetD32Async(word, static_cast<unsigned>(round), 2, stream), CUDA_SUCCESS);
        EXPECT_EQ(cuMemcpyDtoHAsync_v2(const_cast<int*>(own), word, 2 * sizeof(int), stream), CUDA_SUCCESS);
        if (round % 3 == 0) {
          EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        } else if (round % 3 == 1) {
          EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        } else {
          EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
          while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
        }
        EXPECT_EQ(own[0], round);
        EXPECT_EQ(own[1], round);
      }
      EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeliveryTest, CopiesToAnIdleStreamNeedNone) {
  const uint64_t before = NumbersGiven();
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  for (CUstream stream : {stream_, static_cast<CUstream>(nullptr), blocking}) {
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 3; ++i) {
        pinned_[i] = 10 * round + i;
        const CUdeviceptr to = device_ + i * sizeof(int);
        ASSERT_EQ(cuMemcpyHtoDAsync_v2(to, const_cast<int*>(pinned_ + i), sizeof(int), stream), CUDA_SUCCESS);
      }
      ASSERT_EQ(cuMemcpyDtoHAsync_v2(const_cast<int*>(pinned_ + 3), device_, 3 * sizeof(int), stream), CUDA_SUCCESS);
      ASSERT_EQ(stream == blocking ? cuCtxSynchronize() : cuStreamSynchronize(stream), CUDA_SUCCESS);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(pinned_[3 + i], 10 * round + i);
    }
  }
  EXPECT_EQ(NumbersGiven(), before + 1);
  EXPECT_EQ(cuStreamDestroy_v2(blocking), CUDA_SUCCESS);
}

TEST_F(DeliveryTest, ComesWithoutACall) {
  Copy(5, 0);
  while (Look(0) != 5) std::this_thread::yield();
}

// The server sees no event done, so nothing tells of the copy but the word that its stream writes.
TEST_F(DeliveryTest, ComesBeforeAHostFunction) {
  struct Seen {
    const volatile int* at;
    std::promise<int> value;
  } seen{pinned_ + 3, {}};
  events_are_never_done = true;
  Copy(6, 3);
  ASSERT_EQ(
      cuLaunchHostFunc(
          stream_, [](void* data) { static_cast<Seen*>(data)->value.set_value(int{*static_cast<Seen*>(data)->at}); }, &seen),
      CUDA_SUCCESS);
  EXPECT_EQ(seen.value.get_future().get(), 6);
  events_are_never_done = false;
}

// The stream is known to be past the copy by what another one says.
TEST_F(DeliveryTest, ComesBeforeTheAnswerOfAnotherStream) {
  CUstream other = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  Copy(7, 0);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[0], 7);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(other), CUDA_SUCCESS);
}

// Another process may say to this one that the event is done: the stream waits for this process before it is.
TEST_F(DeliveryTest, AnInterprocessEventIsBehindAVisit) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS), CUDA_SUCCESS);
  const uint64_t before = NumbersGiven();
  Copy(4, 0);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[0], 4);
  EXPECT_EQ(NumbersGiven(), before + 2);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

TEST_F(DeliveryTest, OneThatFailsIsForgotten) {
  words_are_refused = true;
  Copy(8, 0);
  const CUresult told = cuStreamSynchronize(stream_);
  words_are_refused = false;
  EXPECT_EQ(told, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pinned_[0], -1);
  // Who makes a mirror of the memory waits for nothing.
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&address, const_cast<int*>(pinned_), 0), CUDA_SUCCESS);
}

// The driver does not register what deliveries need: copies are visits, and the server is not asked again. (Their shadows have
// one address on both sides: in one process they are one memory, which is enough for copies to the host.)
TEST_F(DeliveryTest, WithoutSlotsCopiesAreVisits) {
  constexpr int kCopies = 3;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr device = 0;
  int* pinned = nullptr;
  slots_are_refused = true;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&device, sizeof(int)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), kCopies * sizeof(int), 0), CUDA_SUCCESS);
  const uint64_t before = NumbersGiven();
  for (int i = 0; i < kCopies; ++i) {
    ASSERT_EQ(cuMemsetD32Async(device, static_cast<unsigned>(i + 1), 1, stream), CUDA_SUCCESS);
    const uint64_t sent = Client::Get().session()->last_sequence();
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned + i, device, sizeof(int), stream), CUDA_SUCCESS);
    // From the second one on the copy and its visit alone.
    if (i > 0) {
      EXPECT_EQ(Client::Get().session()->last_sequence(), sent + 2);
    }
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(pinned[i], i + 1);
  }
  EXPECT_EQ(NumbersGiven(), before + kCopies + 1);
  EXPECT_EQ(slots_refused, 1);
  slots_are_refused = false;
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

// The copy may be behind a kernel that waits for this program. What finds the bytes in the mirror: behind_kernel.cu.
TEST_F(DeliveryTest, AMirrorDoesNotWaitForIt) {
  Gate gate(stream_);
  Copy(9, 0);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&address, const_cast<int*>(pinned_), 0), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[0], -1);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[0], 9);
}

}  // namespace
}  // namespace tessera
