// Streams, events and host functions with both ends in one process, on the emulator (which delays operations at random).
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

// One session for all tests of the program: contexts and streams are made anew.
class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    Ends();
    ASSERT_EQ(cuMemAlloc(&device_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAllocHost(reinterpret_cast<void**>(&host_), 4096), CUDA_SUCCESS);
    std::memset(host_, 0, 4096);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(device_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(host_), CUDA_SUCCESS);
  }

  CUdeviceptr device_ = 0;
  // While copies of later rounds may be writing it, which ThreadSanitizer would report.
  __attribute__((no_sanitize("thread"))) uint32_t FirstWord() { return *static_cast<volatile uint32_t*>(host_); }
  uint32_t* host_ = nullptr;
  CUstream stream_ = nullptr;
};

TEST_F(StreamTest, CreationChecksItsArgumentsAtOnce) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, 4, 0), CUDA_ERROR_INVALID_VALUE);
  CUevent event = nullptr;
  for (unsigned flags = 0; flags < 16; ++flags) {
    const bool legal = flags <= 3 || flags == 6 || flags == 7;
    const CUresult result = cuEventCreate(&event, flags);
    EXPECT_EQ(result, legal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE) << flags;
    if (result == CUDA_SUCCESS) {
      EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
    }
  }
}

TEST_F(StreamTest, PropertiesAreAnsweredAsTheDriverDoes) {
  int least = 0, greatest = 0;
  ASSERT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  for (int asked : {5, 0, -1, -3, -100}) {
    CUstream stream = nullptr;
    int priority = 99;
    unsigned flags = 99;
    CUcontext context = nullptr;
    CUdevice device = 99;
    ASSERT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, asked), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
    EXPECT_EQ(priority, std::max(std::min(asked, least), greatest));
    EXPECT_EQ(cuStreamGetFlags(stream, &flags), CUDA_SUCCESS);
    EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
    EXPECT_EQ(cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
    EXPECT_EQ(context, Ends().context());
    EXPECT_EQ(cuStreamGetDevice(stream, &device), CUDA_SUCCESS);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamGetFlags(stream, &flags), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_EQ(cuStreamDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, NumbersAreUniqueAndStay) {
  std::set<unsigned long long> seen;
  unsigned long long legacy = 0, legacy_again = 0, own = 0, own_again = 0, others = 0;
  ASSERT_EQ(cuStreamGetId(nullptr, &legacy), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetId(CU_STREAM_LEGACY, &legacy_again), CUDA_SUCCESS);
  EXPECT_EQ(legacy, legacy_again);
  ASSERT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &own_again), CUDA_SUCCESS);
  EXPECT_EQ(own, own_again);
  std::thread([&] {
    cuCtxSetCurrent(Ends().context());
    EXPECT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &others), CUDA_SUCCESS);
  }).join();
  seen = {legacy, own, others};
  EXPECT_EQ(seen.size(), 3u);
  for (int i = 0; i < 20; ++i) {
    CUstream stream = nullptr;
    unsigned long long number = 0;
    ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamGetId(stream, &number), CUDA_SUCCESS);
    EXPECT_TRUE(seen.insert(number).second);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
}

TEST_F(StreamTest, EventsBeforeAndAfterTheirRecord) {
  CUevent never = nullptr, first = nullptr, second = nullptr, untimed = nullptr;
  float ms = -1;
  ASSERT_EQ(cuEventCreate(&never, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&second, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(never), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(never), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream_, never, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&ms, never, first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(first, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(untimed, stream_), CUDA_SUCCESS);
  Gate gate(stream_);
  EXPECT_EQ(cuEventRecord(second, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(first), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventElapsedTime(&ms, first, untimed), CUDA_ERROR_INVALID_HANDLE);
  gate.Open();
  EXPECT_EQ(cuEventSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&ms, first, second), CUDA_SUCCESS);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecordWithFlags(first, stream_, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuEventRecordWithFlags(first, stream_, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitEvent(stream_, first, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamWaitEvent(stream_, first, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventQuery(nullptr), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent event : {never, first, second, untimed}) EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(first), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, AStreamMayBeDestroyedWithPendingWork) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate gate(stream);
  EXPECT_EQ(cuMemsetD32Async(device_, 0x1234, 16, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  gate.Open();
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(host_, device_, 64), CUDA_SUCCESS);
  EXPECT_EQ(host_[15], 0x1234u);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

// One thread synchronises while others go on: nobody's wait holds up another thread's calls.
TEST_F(StreamTest, ASynchronizeHoldsUpNobodyElse) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate gate(stream_);
  std::atomic<int> waiting{3};
  const auto wait = [&](auto function) {
    return std::thread([&, function] {
      cuCtxSetCurrent(Ends().context());
      EXPECT_EQ(function(), CUDA_SUCCESS);
      --waiting;
    });
  };
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  std::thread a = wait([&] { return cuStreamSynchronize(stream_); });
  std::thread b = wait([&] { return cuEventSynchronize(event); });
  std::thread c = wait([&] { return cuCtxSynchronize(); });
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(cuMemsetD32Async(device_, i, 1, other), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  }
  EXPECT_EQ(waiting, 3);
  gate.Open();
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(StreamTest, ContextSynchronizeWaitsForStreamsOfEveryKind) {
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  for (CUstream stream : {stream_, blocking, CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    for (int round = 0; round < 5; ++round) {
      std::atomic<bool> ran{false};
      ASSERT_EQ(cuLaunchHostFunc(
                    stream,
                    [](void* flag) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                      static_cast<std::atomic<bool>*>(flag)->store(true);
                    },
                    &ran),
                CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      EXPECT_TRUE(ran) << stream;
    }
  }
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

// Thread A enqueues work and then tells thread B; whatever B synchronises, it sees A's work. A is up to kAhead rounds ahead.
TEST_F(StreamTest, WorkOfAnotherThreadIsSeenAfterSynchronizing) {
  constexpr uint32_t kRounds = 200'000, kAhead = 512;
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  std::atomic<uint32_t> enqueued{0}, seen{0};
  std::thread a([&] {
    cuCtxSetCurrent(Ends().context());
    for (uint32_t i = 1; i <= kRounds; ++i) {
      while (i - seen.load(std::memory_order_relaxed) > kAhead) std::this_thread::yield();
      if (i % 32 == 0) {
        EXPECT_EQ(cuMemsetD32Async(device_, i, 1, stream_), CUDA_SUCCESS);
        EXPECT_EQ(cuMemcpyDtoHAsync(host_, device_, 4, stream_), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
      enqueued.store(i, std::memory_order_release);
    }
  });
  uint32_t synchronised = 0, last = 0;
  while (last < kRounds) {
    last = enqueued.load(std::memory_order_acquire);
    CUresult result = CUDA_SUCCESS;
    switch (synchronised++ % 3) {
      case 0: result = cuStreamSynchronize(stream_); break;
      case 1: result = cuEventSynchronize(event); break;
      default: result = cuCtxSynchronize(); break;
    }
    EXPECT_EQ(result, CUDA_SUCCESS);
    EXPECT_GE(FirstWord(), last / 32 * 32);
    seen.store(last, std::memory_order_relaxed);
    if (HasFailure()) last = kRounds;
  }
  seen.store(kRounds, std::memory_order_relaxed);
  a.join();
  EXPECT_GT(synchronised, kRounds / kAhead / 2);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

// Waiting for an event that another thread records again and again ends with the record that was there.
TEST_F(StreamTest, AnEventThatIsRecordedAgainReleasesItsWaiters) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate first(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  std::atomic<bool> released{false};
  std::thread waiter([&] {
    cuCtxSetCurrent(Ends().context());
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    released = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Gate second(other);
  ASSERT_EQ(cuEventRecord(event, other), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(released);
  first.Open();
  waiter.join();
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY) << "the new record is still behind the second gate";
  second.Open();
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(StreamTest, HostFunctionsRunInStreamOrder) {
  struct Log {
    std::vector<uint32_t> seen;
    volatile uint32_t* host;
  } log{{}, host_};
  for (uint32_t i = 1; i <= 300; ++i) {
    ASSERT_EQ(cuMemsetD32Async(device_, i, 1, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync(host_, device_, 4, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchHostFunc(
                  stream_,
                  [](void* p) {
                    const uint32_t value = static_cast<Log*>(p)->host[0];
                    static_cast<Log*>(p)->seen.push_back(value);
                  },
                  &log),
              CUDA_SUCCESS);
  }
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(log.seen.size(), 300u);
  for (uint32_t i = 0; i < 300; ++i) ASSERT_EQ(log.seen[i], i + 1);
}

TEST_F(StreamTest, CallbacksGetStreamAndStatus) {
  struct Seen {
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
    int count = 0;
  } seen;
  const auto callback = [](CUstream stream, CUresult status, void* p) {
    *static_cast<Seen*>(p) = {stream, status, static_cast<Seen*>(p)->count + 1};
  };
  EXPECT_EQ(cuStreamAddCallback(stream_, callback, &seen, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamAddCallback(stream_, nullptr, &seen, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamAddCallback(stream_, callback, &seen, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(seen.stream, stream_);
  EXPECT_EQ(seen.status, CUDA_SUCCESS);
  EXPECT_EQ(seen.count, 1);
}

TEST_F(StreamTest, HostFunctionsMayAskAboutStreamsAndNothingElse) {
  struct Results {
    CUstream stream;
    std::vector<CUresult> results;
  } results{stream_, {}};
  ASSERT_EQ(cuLaunchHostFunc(
                stream_,
                [](void* p) {
                  auto& out = *static_cast<Results*>(p);
                  CUdeviceptr memory = 0;
                  CUcontext context = nullptr;
                  CUevent event = nullptr;
                  int version = 0;
                  CUstreamCaptureStatus status;
                  out.results = {cuMemAlloc(&memory, 64),
                                 cuCtxGetCurrent(&context),
                                 cuCtxSynchronize(),
                                 cuEventCreate(&event, 0),
                                 cuDriverGetVersion(&version),
                                 cuStreamQuery(out.stream),
                                 cuStreamIsCapturing(out.stream, &status)};
                },
                &results),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(results.results, (std::vector<CUresult>{CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED,
                                                    CUDA_ERROR_NOT_PERMITTED, CUDA_SUCCESS, CUDA_ERROR_NOT_READY, CUDA_SUCCESS}));
}

// The driver's queue of launches is bounded: with one host function in front of more launches than fit, the launch that
// blocks must not keep the function's answer from arriving.
TEST_F(StreamTest, ThousandsOfLaunchesBehindOneHostFunction) {
  Gate gate(stream_);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate.Open();
  });
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(cuMemsetD32Async(device_, i, 1, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  opener.join();
  EXPECT_EQ(cuMemcpyDtoH(host_, device_, 4), CUDA_SUCCESS);
  EXPECT_EQ(host_[0], 9'999u);
}

// What it may ask must not stand behind the launches that wait for it, nor be answered as if what stands there did not exist.
TEST_F(StreamTest, AHostFunctionMayAskWhileLaunchesPileUpBehindIt) {
  struct Asked {
    CUstream own = nullptr, other = nullptr;
    CUevent start = nullptr, done = nullptr, late = nullptr, fresh = nullptr, mine = nullptr;
    std::atomic<bool> go{false};
    std::vector<CUresult> results;
    bool in_time = true;
    float ms = -1;

    void Until(const std::function<CUresult()>& question) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      CUresult result = CUDA_ERROR_NOT_READY;
      while ((result = question()) == CUDA_ERROR_NOT_READY) in_time = in_time && std::chrono::steady_clock::now() < deadline;
      results.push_back(result);
    }
    void Run() {
      while (!go) std::this_thread::yield();
      Until([&] { return in_time ? cuEventQuery(done) : CUDA_ERROR_UNKNOWN; });
      Until([&] { return in_time ? cuStreamQuery(other) : CUDA_ERROR_UNKNOWN; });
      float none = 0;
      results.push_back(cuStreamQuery(own));
      results.push_back(cuEventQuery(late));
      results.push_back(cuEventElapsedTime(&none, start, late));
      results.push_back(cuEventElapsedTime(&ms, start, done));
      results.push_back(cuEventQuery(fresh));
      results.push_back(cuEventElapsedTime(&none, start, fresh));
      results.push_back(cuEventSynchronize(done));
      results.push_back(cuEventRecord(mine, other));
      Until([&] { return in_time ? cuEventQuery(mine) : CUDA_ERROR_UNKNOWN; });
      results.push_back(cuStreamSynchronize(other));
    }
  } asked;
  asked.own = stream_;
  CUstream third = nullptr;
  for (CUstream* stream : {&asked.other, &third}) ASSERT_EQ(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (CUevent* event : {&asked.start, &asked.done, &asked.mine, &asked.late}) ASSERT_EQ(cuEventCreate(event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(asked.start, asked.other), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(device_ + 8, 1, 1, asked.other), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(asked.done, asked.other), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(asked.late, asked.other), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(asked.late), CUDA_SUCCESS);
  ASSERT_EQ(cuEventQuery(asked.late), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                stream_, [](void* asked) { static_cast<Asked*>(asked)->Run(); }, &asked),
            CUDA_SUCCESS);
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(cuMemsetD32Async(device_, i, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(asked.late, third), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&asked.fresh, 0), CUDA_SUCCESS);
  asked.go = true;
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(asked.in_time);
  EXPECT_EQ(asked.results, (std::vector<CUresult>{CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_NOT_READY, CUDA_ERROR_NOT_READY,
                                                  CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_INVALID_HANDLE,
                                                  CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS}));
  EXPECT_GE(asked.ms, 0);
  // What the function recorded is known to everybody.
  EXPECT_EQ(cuStreamWaitEvent(third, asked.mine, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(third), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(asked.late), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(host_, device_, 4), CUDA_SUCCESS);
  EXPECT_EQ(host_[0], 9'999u);
  for (CUevent event : {asked.start, asked.done, asked.mine, asked.late, asked.fresh}) {
    EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  }
  for (CUstream stream : {asked.other, third}) EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

// A record that a host function makes stands where the program's order puts it: behind the work of its stream.
TEST_F(StreamTest, AHostFunctionRecordsBehindWhatIsEnqueued) {
  struct Recorded {
    CUstream other = nullptr;
    CUevent event = nullptr;
    std::atomic<bool> go{false};
    CUresult result = CUDA_ERROR_UNKNOWN;
    CUresult at_once = CUDA_ERROR_UNKNOWN;
  } recorded;
  ASSERT_EQ(cuStreamCreate(&recorded.other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&recorded.event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                stream_,
                [](void* data) {
                  auto& recorded = *static_cast<Recorded*>(data);
                  while (!recorded.go) std::this_thread::yield();
                  recorded.result = cuEventRecord(recorded.event, recorded.other);
                  recorded.at_once = cuEventQuery(recorded.event);
                },
                &recorded),
            CUDA_SUCCESS);
  for (int i = 0; i < 3'000; ++i) ASSERT_EQ(cuMemsetD32Async(device_, i, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(device_ + 4, 55, 1, recorded.other), CUDA_SUCCESS);  // cannot be in the driver yet
  recorded.go = true;
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(recorded.result, CUDA_SUCCESS);
  EXPECT_EQ(recorded.at_once, CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuEventSynchronize(recorded.event), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(host_, device_ + 4, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(host_[0], 55u);
  EXPECT_EQ(cuEventDestroy(recorded.event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(recorded.other), CUDA_SUCCESS);
}

TEST_F(StreamTest, CallsWithoutACurrentContext) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  std::thread([&] {
    unsigned flags = 0;
    CUstream none = nullptr;
    EXPECT_EQ(cuStreamCreate(&none, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamGetFlags(stream_, &flags), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  }).join();
}

}  // namespace
}  // namespace tessera
