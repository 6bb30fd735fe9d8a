// Copies of registered memory that are read when they are called, since their stream is idle, while another thread gives the
// stream work. Both ends in one process, on the emulator. The copying thread is held where it reads its source: in a handler for
// SIGSEGV.
#include <cuda.h>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "client-stub/streams/host_functions.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

constexpr size_t kPageBytes = 4096;

// Two pages of memory, neither of which may be touched at first. Whichever is read first is opened; when the reader comes to
// the other, in the middle of reading both, it waits for another thread.
struct Trap {
  std::byte* memory = nullptr;
  std::byte* touched = nullptr;  // first
  bool sprung = false;
  sem_t reached;
  sem_t passed;
};
Trap trap;

void Open(std::byte* page) { mprotect(page, kPageBytes, PROT_READ | PROT_WRITE); }

void OnTouch(int, siginfo_t* info, void*) {
  auto* const at = static_cast<std::byte*>(info->si_addr);
  if (trap.memory == nullptr || at < trap.memory || at >= trap.memory + 2 * kPageBytes) {
    signal(SIGSEGV, SIG_DFL);  // a fault of the test itself
    return;
  }
  if (trap.touched == nullptr) {
    trap.touched = at;
    Open(at < trap.memory + kPageBytes ? trap.memory : trap.memory + kPageBytes);
    return;
  }
  Open(trap.memory);
  Open(trap.memory + kPageBytes);
  trap.sprung = true;
  sem_post(&trap.reached);
  sem_wait(&trap.passed);
}

// Numbers that visits and host functions have got so far.
uint64_t NumbersGiven() {
  const uint64_t number = HostFunctionsOfProcess().Add(HostFunction{});
  HostFunctionsOfProcess().Drop(number);
  return number;
}

// How many bytes of the registered memory are copied: in the record, in a piece, in several.
class ReadAtCall : public testing::TestWithParam<size_t> {
 protected:
  static constexpr size_t kIntsMax = 250'000;

  void SetUp() override {
    Ends();
    struct sigaction action {};
    action.sa_sigaction = OnTouch;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&blocking_, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&device_, kIntsMax * sizeof(int)), CUDA_SUCCESS);
    void* memory = mmap(nullptr, kIntsMax * sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    source_ = static_cast<int*>(memory);
    ASSERT_EQ(cuMemHostRegister(source_, kIntsMax * sizeof(int), 0), CUDA_SUCCESS);
    Fill(1);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    trap.memory = nullptr;
    EXPECT_EQ(cuMemHostUnregister(source_), CUDA_SUCCESS);
    munmap(source_, kIntsMax * sizeof(int));
    EXPECT_EQ(cuMemFree(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(blocking_), CUDA_SUCCESS);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  size_t ints() const { return GetParam() / sizeof(int); }
  void Fill(int value) { std::fill_n(source_, ints(), value); }
  // When the stream comes to it.
  void FillInOrder(CUstream stream) {
    const auto fill = [](void* self) { static_cast<ReadAtCall*>(self)->Fill(2); };
    EXPECT_EQ(cuLaunchHostFunc(stream, fill, this), CUDA_SUCCESS);
  }

  // Copies the source in `stream`. Another thread does `meanwhile` when a part of it has been read already, and the first int of
  // that part is what this returns once the copy is done.
  // `trap_at`: offset of the two pages.
  int CopyAndMeanwhile(
      CUstream stream, const std::function<void()>& meanwhile, const std::function<void()>& then = [] {}, size_t trap_at = 0) {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    trap.memory = reinterpret_cast<std::byte*>(source_) + trap_at;
    trap.touched = nullptr;
    trap.sprung = false;
    sem_init(&trap.reached, 0, 0);
    sem_init(&trap.passed, 0, 0);
    std::thread other([&] {
      sem_wait(&trap.reached);
      EXPECT_EQ(cuCtxSetCurrent(Ends().context()), CUDA_SUCCESS);
      if (trap.sprung) meanwhile();
      sem_post(&trap.passed);
    });
    EXPECT_EQ(mprotect(trap.memory, 2 * kPageBytes, PROT_NONE), 0);
    EXPECT_EQ(cuMemcpyHtoDAsync(device_, source_, GetParam(), stream), CUDA_SUCCESS);
    EXPECT_TRUE(trap.sprung) << "the source was not read by the call";
    if (!trap.sprung) {
      Open(trap.memory);
      Open(trap.memory + kPageBytes);
      sem_post(&trap.reached);
    }
    other.join();
    if (!trap.sprung) return 0;
    then();
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return Copied(trap_at + static_cast<size_t>(trap.touched - trap.memory) / sizeof(int) * sizeof(int));
  }
  // What the device has at this offset.
  int Copied(size_t at) {
    int copied = 0;
    EXPECT_EQ(cuMemcpyDtoH(&copied, device_ + at, sizeof(copied)), CUDA_SUCCESS);
    return copied;
  }

  CUstream stream_ = nullptr;
  CUstream blocking_ = nullptr;
  CUdeviceptr device_ = 0;
  int* source_ = nullptr;
  struct sigaction before_ {};
};

INSTANTIATE_TEST_SUITE_P(Sizes, ReadAtCall, testing::Values(size_t{6000}, size_t{100'000}, size_t{1'000'000}));

// A host function that writes the source came before the copy: the copy finds what it wrote.
TEST_P(ReadAtCall, ACopyBehindAnothersWorkFindsWhatItWrote) {
  for (CUstream given : {stream_, blocking_, static_cast<CUstream>(nullptr)}) {
    Fill(1);
    std::optional<Gate> gate;
    const auto work = [&] {
      gate.emplace(given);
      FillInOrder(given);
    };
    // Work of the default stream holds up those that wait for it.
    EXPECT_EQ(CopyAndMeanwhile(given == nullptr ? blocking_ : given, work, [&] { gate->Open(); }), 2);
  }
}

// The same though the stream is idle again when the copy is appended.
TEST_P(ReadAtCall, ACopyBehindAnothersFinishedWorkFindsWhatItWrote) {
  for (CUstream given : {stream_, blocking_, static_cast<CUstream>(nullptr)}) {
    Fill(1);
    const auto work = [&] {
      FillInOrder(given);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    };
    EXPECT_EQ(CopyAndMeanwhile(given == nullptr ? blocking_ : given, work), 2);
  }
}

// The first piece was appended before the work: it is copied once more, so that the copy is not half before the work and half
// behind it.
TEST_P(ReadAtCall, WorkBetweenPiecesIsFoundByAllOfThem) {
  constexpr size_t kSecondPiece = size_t{512} << 10;
  if (GetParam() <= kSecondPiece) GTEST_SKIP() << "one piece";
  std::optional<Gate> gate;
  const auto work = [&] {
    gate.emplace(stream_);
    FillInOrder(stream_);
  };
  EXPECT_EQ(CopyAndMeanwhile(
                stream_, work, [&] { gate->Open(); }, kSecondPiece),
            2);
  EXPECT_EQ(Copied(0), 2);
  EXPECT_EQ(Copied((ints() - 1) * sizeof(int)), 2);
}

// What says nothing of the stream does not keep the copy from being read at its call, by a visit less.
TEST_P(ReadAtCall, WorkOfAnotherStreamIsNone) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const uint64_t before = NumbersGiven();
  const auto work = [&] {
    EXPECT_EQ(cuMemsetD32Async(device_, 7, 1, other), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  };
  EXPECT_EQ(CopyAndMeanwhile(stream_, work), 1);
  EXPECT_EQ(NumbersGiven(), before + 1);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

// Copies of another stream, which does not go on, have all the room: the call waits for none of them.
TEST_P(ReadAtCall, ACopyWithoutRoomDoesNotWait) {
  if (GetParam() < 32'768) GTEST_SKIP() << "in the record";
  constexpr size_t kPiece = size_t{1} << 20, kStaging = size_t{64} << 20;
  CUdeviceptr other = 0;
  ASSERT_EQ(cuMemAlloc(&other, kPiece), CUDA_SUCCESS);
  const std::vector<char> ordinary(kPiece);
  Gate gate(blocking_);
  std::thread filler([&] {  // waits in the end for what the gate holds up
    EXPECT_EQ(cuCtxSetCurrent(Ends().context()), CUDA_SUCCESS);
    for (size_t i = 0; i < kStaging / kPiece + 2; ++i)
      EXPECT_EQ(cuMemcpyHtoDAsync(other, ordinary.data(), kPiece, blocking_), CUDA_SUCCESS);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::promise<void> returned;
  bool waited = false;
  std::thread opener([&] {
    waited = returned.get_future().wait_for(std::chrono::seconds(10)) != std::future_status::ready;
    gate.Open();
  });
  EXPECT_EQ(cuMemcpyHtoDAsync(device_, source_, GetParam(), stream_), CUDA_SUCCESS);
  returned.set_value();
  opener.join();
  filler.join();
  EXPECT_FALSE(waited);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Copied((ints() - 1) * sizeof(int)), 1);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
}

// More pieces than there is room for: those of copies that were not appended are free again.
TEST_P(ReadAtCall, ACopyThatGoesTheOtherWayLeavesNothingBehind) {
  constexpr int kCopies = 1000;
  for (int i = 0; i < kCopies; ++i) {
    const auto work = [&] { EXPECT_EQ(cuMemsetD32Async(device_, 7, ints(), stream_), CUDA_SUCCESS); };
    ASSERT_EQ(CopyAndMeanwhile(stream_, work), 1) << i;
  }
}

}  // namespace
}  // namespace tessera
