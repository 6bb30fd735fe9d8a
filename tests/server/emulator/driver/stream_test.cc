#include <atomic>
#include <thread>

#include "tests/server/emulator/driver/driver_fixture.h"

namespace tessera {
namespace {

class StreamTest : public DriverTest {
 protected:
  // Work that lasts until the test says so.
  void Block(CUstream stream) {
    if (flag_ == nullptr) flag_ = Pinned(1);
    __atomic_store_n(flag_, 0, __ATOMIC_RELEASE);
    EXPECT_CU(cu(StreamWaitValue32_v2)(stream, reinterpret_cast<CUdeviceptr>(flag_), 1, CU_STREAM_WAIT_VALUE_EQ));
  }
  void Unblock() { __atomic_store_n(flag_, 1, __ATOMIC_RELEASE); }
  int* flag_ = nullptr;
};

TEST_F(StreamTest, CommandsOfAStreamKeepTheirOrder) {
  const CUstream stream = Stream();
  const CUdeviceptr memory = Allocate(4);
  for (int round = 0; round < 100; ++round) {
    EXPECT_CU(cu(MemsetD32Async)(memory, static_cast<unsigned>(round), 1, stream));
    EXPECT_CU(Launch("add_one", 1, 32, stream, memory, 1));
  }
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(100, ReadOne(memory));
}

TEST_F(StreamTest, QueryTellsUnfinishedWork) {
  const CUstream stream = Stream();
  EXPECT_CU(cu(StreamQuery)(stream));
  Block(stream);
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(stream));
  const CUevent event = Event();
  EXPECT_CU(cu(EventQuery)(event));
  EXPECT_CU(cu(EventRecord)(event, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(EventQuery)(event));
  Unblock();
  EXPECT_CU(cu(EventSynchronize)(event));
  EXPECT_CU(cu(EventQuery)(event));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_CU(cu(StreamQuery)(stream));
}

TEST_F(StreamTest, EventsOrderStreams) {
  const CUstream first = Stream(), second = Stream();
  const CUdeviceptr memory = Allocate(8);
  const CUevent event = Event(CU_EVENT_DISABLE_TIMING);
  for (int round = 1; round <= 30; ++round) {
    EXPECT_CU(cu(MemsetD32Async)(memory, static_cast<unsigned>(round), 1, first));
    EXPECT_CU(cu(EventRecord)(event, first));
    EXPECT_CU(cu(StreamWaitEvent)(second, event, 0));
    EXPECT_CU(cu(MemcpyDtoDAsync_v2)(memory + 4, memory, 4, second));
    EXPECT_CU(cu(EventRecord)(event, second));
    EXPECT_CU(cu(StreamWaitEvent)(first, event, 0));
    int value = 0;
    EXPECT_CU(cu(MemcpyDtoHAsync_v2)(&value, memory + 4, 4, second));
    ASSERT_EQ(round, value);
  }
}

TEST_F(StreamTest, WaitTakesTheRecordOfItsTime) {
  const CUstream first = Stream(), second = Stream();
  const CUevent event = Event();
  EXPECT_CU(cu(EventRecord)(event, second));
  EXPECT_CU(cu(StreamWaitEvent)(second, event, 0));
  Block(first);
  EXPECT_CU(cu(EventRecord)(event, first));  // a later record does not move the wait
  EXPECT_CU(cu(StreamSynchronize)(second));
  Unblock();
}

TEST_F(StreamTest, LegacyStreamWaitsForBlockingStreamsOnly) {
  const CUstream blocking = Stream(CU_STREAM_DEFAULT), other = Stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = Allocate(4);
  Block(other);
  EXPECT_CU(cu(MemsetD32Async)(memory, 1, 1, nullptr));
  EXPECT_CU(cu(StreamSynchronize)(nullptr));  // the non-blocking stream holds nobody up
  Unblock();
  EXPECT_CU(cu(StreamSynchronize)(other));
  Block(blocking);
  EXPECT_CU(cu(MemsetD32Async)(memory, 2, 1, nullptr));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(nullptr));
  // And a blocking stream waits for the legacy stream in turn.
  const CUstream late = Stream(CU_STREAM_DEFAULT);
  EXPECT_CU(cu(MemsetD32Async)(memory, 3, 1, late));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(late));
  Unblock();
  EXPECT_CU(cu(StreamSynchronize)(late));
  EXPECT_EQ(3, ReadOne(memory));
}

TEST_F(StreamTest, PerThreadStreamsAreDifferentStreams) {
  unsigned long long mine = 0, theirs = 0, legacy = 0;
  EXPECT_CU(cu(StreamGetId)(CU_STREAM_PER_THREAD, &mine));
  EXPECT_CU(cu(StreamGetId)(CU_STREAM_LEGACY, &legacy));
  std::thread([&] {
    EXPECT_CU(cu(CtxSetCurrent)(context_));
    EXPECT_CU(cu(StreamGetId)(CU_STREAM_PER_THREAD, &theirs));
  }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_NE(mine, legacy);
}

TEST_F(StreamTest, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  struct Seen {
    std::atomic<int> count{0};
    CUresult result = CUDA_SUCCESS;
    int* value;
    int at_call = 0;
  } seen;
  const CUstream stream = Stream();
  seen.value = Pinned(1);
  *seen.value = 0;
  EXPECT_CU(Launch("store", 1, 1, stream, seen.value, 5));
  EXPECT_CU(cu(LaunchHostFunc)(
      stream,
      [](void* data) {
        auto* seen = static_cast<Seen*>(data);
        seen->at_call = *seen->value;
        CUdeviceptr memory = 0;
        seen->result = cu(MemAlloc_v2)(&memory, 16);
        ++seen->count;
      },
      &seen));
  EXPECT_CU(Launch("store", 1, 1, stream, seen.value, 6));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(1, seen.count);
  EXPECT_EQ(5, seen.at_call);
  EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, seen.result);
  EXPECT_EQ(6, *seen.value);
}

TEST_F(StreamTest, CallbackHearsItsStream) {
  struct Seen {
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
  } seen;
  const CUstream stream = Stream();
  EXPECT_CU(cu(StreamAddCallback)(
      stream,
      [](CUstream stream, CUresult status, void* data) {
        *static_cast<Seen*>(data) = {stream, status};
      },
      &seen, 0));
  EXPECT_CU(cu(StreamSynchronize)(stream));
  EXPECT_EQ(stream, seen.stream);
  EXPECT_EQ(CUDA_SUCCESS, seen.status);
}

TEST_F(StreamTest, StreamsMakeProgressTogether) {
  const CUstream first = Stream(), second = Stream();
  const CUdeviceptr flag = Allocate(4), out = Allocate(4);
  EXPECT_CU(cu(MemsetD32_v2)(flag, 0, 1));
  EXPECT_CU(cu(CtxSynchronize)());
  // A driver that loads functions lazily waits for the device to do so: not behind the spinning kernel.
  for (const char* name : {"wait_for", "store"}) EXPECT_CU(cu(FuncLoad)(Function(name)));
  EXPECT_CU(Launch("wait_for", 1, 1, first, flag));  // spins until the other stream stores
  EXPECT_CU(Launch("store", 1, 1, second, flag, 1));
  EXPECT_CU(Launch("store", 1, 1, first, out, 9));
  EXPECT_CU(cu(StreamSynchronize)(first));
  EXPECT_EQ(9, ReadOne(out));
}

// A device's queue is bounded: what is beyond waits in the call, and holds up neither questions nor other streams.
TEST_F(StreamTest, AFullQueueBlocksTheCallThatFillsIt) {
  constexpr int kMany = 5000;
  const CUdeviceptr memory = Allocate(8);
  const CUstream full = Stream(), other = Stream();
  Block(full);
  std::atomic<int> given{0};
  std::thread launches([&] {
    EXPECT_CU(cu(CtxSetCurrent)(context_));
    for (int i = 1; i <= kMany; ++i, ++given) EXPECT_CU(cu(MemsetD32Async)(memory, static_cast<unsigned>(i), 1, full));
  });
  while (given < 1000) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_CU(cu(MemsetD32Async)(memory + 4, static_cast<unsigned>(i), 1, other));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(StreamQuery)(full));
    EXPECT_CU(cu(StreamSynchronize)(other));
  }
  if (Emulated()) {
    EXPECT_LE(given, 1030);
  }
  Unblock();
  launches.join();
  EXPECT_CU(cu(StreamSynchronize)(full));
  EXPECT_EQ(kMany, ReadOne(memory));
  EXPECT_EQ(999, ReadOne(memory + 4));
}

// Measured: driver 580.
TEST_F(StreamTest, HostFunctionsOfAContextRunOneAfterTheOther) {
  struct Count {
    std::atomic<int> running{0}, most{0}, ran{0};
  } count;
  for (int i = 0; i < 20; ++i) {
    EXPECT_CU(cu(LaunchHostFunc)(
        Stream(),
        [](void* data) {
          auto& count = *static_cast<Count*>(data);
          const int running = ++count.running;
          if (running > count.most) count.most = running;
          for (int j = 0; j < 1000; ++j) std::this_thread::yield();
          --count.running;
          ++count.ran;
        },
        &count));
  }
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_EQ(20, count.ran);
  EXPECT_EQ(1, count.most);
}

TEST_F(StreamTest, DestroyedStreamFinishesItsWork) {
  const CUdeviceptr memory = Allocate(4);
  const CUstream stream = Stream();
  Block(stream);
  EXPECT_CU(cu(MemsetD32Async)(memory, 4, 1, stream));
  EXPECT_CU(cu(StreamDestroy_v2)(stream));
  if (Emulated()) {
    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu(StreamQuery)(stream));
  }
  Unblock();
  EXPECT_CU(cu(CtxSynchronize)());
  EXPECT_EQ(4, ReadOne(memory));
}

TEST_F(StreamTest, ElapsedTimeNeedsTwoTimedRecords) {
  const CUstream stream = Stream();
  const CUevent start = Event(), end = Event(), untimed = Event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu(EventElapsedTime)(&milliseconds, start, end));
  EXPECT_CU(cu(EventRecord)(start, stream));
  EXPECT_CU(cu(EventSynchronize)(start));
  Block(stream);
  EXPECT_CU(cu(EventRecord)(end, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu(EventElapsedTime_v2)(&milliseconds, start, end));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Unblock();
  EXPECT_CU(cu(EventSynchronize)(end));
  EXPECT_CU(cu(EventElapsedTime_v2)(&milliseconds, start, end));
  EXPECT_GT(milliseconds, 4.0f);
  EXPECT_CU(cu(EventRecord)(untimed, stream));
  EXPECT_CU(cu(EventSynchronize)(untimed));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu(EventElapsedTime_v2)(&milliseconds, untimed, end));
}

TEST_F(StreamTest, PropertiesReadBack) {
  CUstream stream = nullptr;
  EXPECT_CU(cu(StreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, -1));
  int priority = 0, least = 9, greatest = 9;
  unsigned flags = 0;
  CUcontext context = nullptr;
  EXPECT_CU(cu(CtxGetStreamPriorityRange)(&least, &greatest));
  EXPECT_EQ(0, least);
  EXPECT_EQ(-5, greatest);
  EXPECT_CU(cu(StreamGetPriority)(stream, &priority));
  EXPECT_CU(cu(StreamGetFlags)(stream, &flags));
  EXPECT_CU(cu(StreamGetCtx)(stream, &context));
  EXPECT_EQ(-1, priority);
  EXPECT_EQ(static_cast<unsigned>(CU_STREAM_NON_BLOCKING), flags);
  EXPECT_EQ(context_, context);
}

}  // namespace
}  // namespace tessera
