// Large asynchronous copies of registered memory, with both ends in one process, on the emulator: their pieces share the places
// of a shadow, copies that wait in one stream the shadow itself.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

// What the server's driver has registered for the client since the test began.
std::atomic<uint64_t> registered_bytes{0};
decltype(DriverTable::cuMemHostRegister_v2) register_memory = nullptr;
std::atomic<bool> memory_is_refused{false};  // the next that is to be registered
// Waits for a word that are yet to be let through before one is refused; none is while this is negative.
std::atomic<int> waits_until_refused{-1};
decltype(DriverTable::cuStreamWaitValue64_v2) wait_for_word = nullptr;
// Events that the worker has recorded to see how far streams are; the next is refused.
std::atomic<int> events_recorded{0};
std::atomic<bool> event_is_refused{false};
decltype(DriverTable::cuEventRecord) record_event = nullptr;

void Change(DriverTable& driver) {
  register_memory = driver.cuMemHostRegister_v2;
  driver.cuMemHostRegister_v2 = [](void* memory, size_t bytes, unsigned flags) {
    if (memory_is_refused.exchange(false)) return CUDA_ERROR_OUT_OF_MEMORY;
    registered_bytes += bytes;
    return register_memory(memory, bytes, flags);
  };
  wait_for_word = driver.cuStreamWaitValue64_v2;
  driver.cuStreamWaitValue64_v2 = [](CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    if (waits_until_refused.load() >= 0 && waits_until_refused.fetch_sub(1) == 0) return CUDA_ERROR_INVALID_VALUE;
    return wait_for_word(stream, address, value, flags);
  };
  record_event = driver.cuEventRecord;
  driver.cuEventRecord = [](CUevent event, CUstream stream) {
    if (event_is_refused.exchange(false)) return CUDA_ERROR_OUT_OF_MEMORY;
    ++events_recorded;
    return record_event(event, stream);
  };
}

constexpr size_t kPiece = size_t{2} << 20;
// Some pieces, more than there are places, and the last one short.
constexpr size_t kBytes = 5 * kPiece + 4096;
constexpr size_t kInts = kBytes / sizeof(int);

class CopyInOrderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { static BothEnds ends(Change); }
  void SetUp() override {
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    from_ = Registered();
    to_ = Registered();
    std::iota(from_, from_ + kInts, 1);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    for (int* memory : memories_) {
      EXPECT_EQ(cuMemHostUnregister(memory), CUDA_SUCCESS);
      munmap(memory, kBytes);
    }
    for (const CUdeviceptr memory : device_memories_) EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  }
  int* Registered() {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    EXPECT_EQ(cuMemHostRegister_v2(memory, kBytes, 0), CUDA_SUCCESS);
    memories_.push_back(static_cast<int*>(memory));
    return memories_.back();
  }
  CUdeviceptr Device() {
    device_memories_.push_back(0);
    EXPECT_EQ(cuMemAlloc_v2(&device_memories_.back(), kBytes), CUDA_SUCCESS);
    return device_memories_.back();
  }
  // The first int that is not `first`, `first` + 1, ...; kInts: none.
  static size_t Mismatch(const int* ints, int first) {
    size_t i = 0;
    while (i < kInts && ints[i] == first + static_cast<int>(i)) ++i;
    return i;
  }

  CUstream stream_ = nullptr;
  int* from_ = nullptr;
  int* to_ = nullptr;
  std::vector<int*> memories_;
  std::vector<CUdeviceptr> device_memories_;
};

TEST_F(CopyInOrderTest, AllPiecesArrive) {
  const CUdeviceptr device = Device();
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 1), kInts);
}

TEST_F(CopyInOrderTest, ACopyBetweenHostMemoryIsDoneWhenTheCallReturns) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  Gate gate(stream_);
  std::atomic<bool> returned{false};
  std::thread caller([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to_), reinterpret_cast<CUdeviceptr>(from_), kBytes, stream_),
              CUDA_SUCCESS);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(returned);
  EXPECT_EQ(to_[0], 0);
  gate.Open();
  caller.join();
  EXPECT_EQ(Mismatch(to_, 1), kInts);
}

// The handle is gone before the stream comes to the copies. The context is done when they are.
TEST_F(CopyInOrderTest, AStreamMayBeDestroyedBeforeItComesToItsCopies) {
  const CUdeviceptr device = Device();
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate gate(stream);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  gate.Open();
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 1), kInts);
}

// Nobody waits for a shadow to be made. Without it there is no copy: the program hears of that, and no memory of its is written.
TEST_F(CopyInOrderTest, AShadowThatIsRefusedIsAnError) {
  constexpr size_t kShort = 700'000;  // its shadow has a size of its own
  const CUdeviceptr device = Device();
  ASSERT_EQ(cuMemsetD8_v2(device, 5, kBytes), CUDA_SUCCESS);
  auto* const to = reinterpret_cast<unsigned char*>(to_);
  std::memset(to, 9, kShort);
  memory_is_refused = true;
  Gate gate(stream_);
  const CUresult called = cuMemcpyDtoHAsync_v2(to, device, kShort, stream_);
  gate.Open();
  CUresult waited = cuStreamSynchronize(stream_);
  EXPECT_FALSE(memory_is_refused);
  EXPECT_TRUE(called == CUDA_ERROR_OUT_OF_MEMORY || waited == CUDA_ERROR_OUT_OF_MEMORY) << called << " " << waited;
  for (int more = 0; waited != CUDA_SUCCESS && more < 4; ++more) waited = cuStreamSynchronize(stream_);
  EXPECT_EQ(waited, CUDA_SUCCESS);
  EXPECT_EQ(std::count(to, to + kShort, 9), static_cast<ptrdiff_t>(kShort));
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to, device, kShort, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(std::count(to, to + kShort, 5), static_cast<ptrdiff_t>(kShort));
}

// The source of each copy is changed by a host function behind the copy before it, and the whole waits for a gate.
TEST_F(CopyInOrderTest, ReadsAndWritesWhenTheStreamIsThere) {
  struct Change {
    int* from;
    const int* to;
    int round;
    size_t mismatch;
  };
  constexpr int kRounds = 6;
  const CUdeviceptr device = Device();
  std::vector<Change> changes(kRounds);
  Gate gate(stream_);
  for (int round = 0; round < kRounds; ++round) {
    changes[static_cast<size_t>(round)] = Change{from_, to_, round, 0};
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
    const auto change = [](void* data) {
      auto& change = *static_cast<Change*>(data);
      change.mismatch = Mismatch(change.to, 100 * change.round);
      std::iota(change.from, change.from + kInts, 100 * (change.round + 1));
    };
    ASSERT_EQ(cuLaunchHostFunc(stream_, change, &changes[static_cast<size_t>(round)]), CUDA_SUCCESS);
  }
  std::iota(from_, from_ + kInts, 0);
  gate.Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  for (const Change& change : changes) EXPECT_EQ(change.mismatch, kInts) << change.round;
}

TEST_F(CopyInOrderTest, CopiesThatWaitInOneStreamShareOneShadow) {
  const CUdeviceptr device = Device();
  const uint64_t before = registered_bytes;
  Gate gate(stream_);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
  }
  gate.Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 1), kInts);
  // The whole segments of pinned memory that were made meanwhile; a hundred shadows of their own would be 400 MiB.
  EXPECT_LE(registered_bytes - before, uint64_t{100} << 20);
}

// A copy that is being enqueued has its shadow for itself: what two threads enqueue on one stream is mixed.
TEST_F(CopyInOrderTest, ThreadsMayUseOneStream) {
  constexpr int kThreads = 4, kRounds = 10;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  struct Part {
    int* from;
    int* to;
    CUdeviceptr device;
  };
  std::vector<Part> parts;
  for (int k = 0; k < kThreads; ++k) {
    parts.push_back(Part{Registered(), Registered(), Device()});
    std::iota(parts.back().from, parts.back().from + kInts, 1000 * k);
  }
  std::vector<std::thread> threads;
  for (const Part& part : parts) {
    threads.emplace_back([&, part] {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(cuMemcpyHtoDAsync_v2(part.device, part.from, kBytes, stream_), CUDA_SUCCESS);
        EXPECT_EQ(cuMemcpyDtoHAsync_v2(part.to, part.device, kBytes, stream_), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  for (int k = 0; k < kThreads; ++k) EXPECT_EQ(Mismatch(parts[static_cast<size_t>(k)].to, 1000 * k), kInts) << k;
}

// Each thread's own default stream has the same handle.
TEST_F(CopyInOrderTest, ThreadsOwnStreamsShareNoShadow) {
  constexpr int kThreads = 3, kRounds = 8;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  std::vector<std::thread> threads;
  std::vector<int*> from, to;
  std::vector<CUdeviceptr> device;
  for (int k = 0; k < kThreads; ++k) {
    from.push_back(Registered());
    to.push_back(Registered());
    device.push_back(Device());
    std::iota(from.back(), from.back() + kInts, 500 * k);
  }
  for (size_t k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(cuMemcpyHtoDAsync_v2(device[k], from[k], kBytes, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
        EXPECT_EQ(cuMemcpyDtoHAsync_v2(to[k], device[k], kBytes, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < kThreads; ++k) EXPECT_EQ(Mismatch(to[k], 500 * static_cast<int>(k)), kInts) << k;
}

// What holds a stream up before it has any work of its own is nothing that asking the stream tells of.
TEST_F(CopyInOrderTest, WaitsForWhatTheContextWaitsFor) {
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  const CUdeviceptr device = Device();
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  Gate gate(other);
  ASSERT_EQ(cuEventRecord(event, other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxWaitEvent(context, event), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
  // Longer than an early visit would take to come.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::iota(from_, from_ + kInts, 7);
  gate.Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 7), kInts);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(other), CUDA_SUCCESS);
}

// Registered pages are not exchanged for others that the server could have (client-stub/memory/registered_memory.md): what a
// child writes stays its own, what the program gives back to the system reads as zeros, and both reach copies.
TEST_F(CopyInOrderTest, PagesStayTheProgramsOwn) {
  constexpr size_t kPageInts = 4096 / sizeof(int);
  const CUdeviceptr device = Device();
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const auto child =
      static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));  // no handler of fork() runs
  if (child == 0) {
    from_[0] = -7;
    _exit(0);
  }
  ASSERT_GT(child, 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(from_[0], 1);
  ASSERT_EQ(madvise(from_ + kPageInts, 4096, MADV_DONTNEED), 0);
  EXPECT_EQ(from_[kPageInts], 0);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 1), kPageInts);
  EXPECT_TRUE(std::all_of(to_ + kPageInts, to_ + 2 * kPageInts, [](int i) { return i == 0; }));
  EXPECT_EQ(to_[2 * kPageInts], from_[2 * kPageInts]);
}

// A rectangle whose rows are not next to each other.
TEST_F(CopyInOrderTest, BoxesGoPieceByPieceToo) {
  constexpr size_t kPitch = 4096, kWidth = 3000, kRows = kBytes / kPitch;
  const CUdeviceptr device = Device();
  CUDA_MEMCPY2D there{};
  there.srcMemoryType = CU_MEMORYTYPE_HOST;
  there.srcHost = from_;
  there.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  there.dstDevice = device;
  there.srcPitch = there.dstPitch = kPitch;
  there.WidthInBytes = kWidth;
  there.Height = kRows;
  CUDA_MEMCPY2D back = there;
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = device;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = to_;
  std::fill_n(to_, kInts, -1);
  ASSERT_EQ(cuMemcpy2DAsync_v2(&there, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpy2DAsync_v2(&back, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  for (size_t row = 0; row < kRows; ++row) {
    const size_t at = row * kPitch / sizeof(int);
    ASSERT_EQ(to_[at], static_cast<int>(at) + 1);
    ASSERT_EQ(to_[at + kWidth / sizeof(int) - 1], static_cast<int>(at + kWidth / sizeof(int)));
    ASSERT_EQ(to_[at + kWidth / sizeof(int)], -1);
  }
}

// A visit that cannot be enqueued is over before those that came before it, for which their copies still wait.
TEST_F(CopyInOrderTest, ARefusedVisitLetsNoEarlierCopyGoOn) {
  constexpr int kVisits = 2 * 7;
  const CUdeviceptr device = Device(), other = Device();
  const int before = events_recorded;
  Gate gate(stream_);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
  while (events_recorded < before + kVisits) std::this_thread::yield();
  // The mark behind the last piece is an event too.
  for (int seen = -1; seen != events_recorded; std::this_thread::sleep_for(std::chrono::milliseconds(50))) seen = events_recorded;
  event_is_refused = true;
  const CUresult called = cuMemcpyHtoDAsync_v2(other, from_, kBytes, stream_);
  while (event_is_refused) std::this_thread::yield();
  gate.Open();
  const CUresult waited = cuStreamSynchronize(stream_);
  EXPECT_TRUE(called != CUDA_SUCCESS || waited != CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Mismatch(to_, 1), kInts);
}

// A wait that the driver refuses in the middle of a copy: the program hears of it, and the next copies are right.
TEST_F(CopyInOrderTest, ARefusedWaitIsAnError) {
  const CUdeviceptr device = Device();
  waits_until_refused = 2;
  Gate gate(stream_);  // no visit is over before its wait
  const CUresult called = cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_);
  while (waits_until_refused >= 0) std::this_thread::yield();
  gate.Open();
  const CUresult waited = cuStreamSynchronize(stream_);
  EXPECT_TRUE(called != CUDA_SUCCESS || waited != CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    std::fill_n(to_, kInts, -1);
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, from_, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(to_, device, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(Mismatch(to_, 1), kInts);
  }
}

}  // namespace
}  // namespace tessera
