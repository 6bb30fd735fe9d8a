// Legality of calls during stream capture. The expectations were observed on driver 580.159 (H200, CUDA 13.0): result of
// the call, status of the stream after it, result of cuStreamEndCapture.
#include "client-stub/streams/capture.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tessera {
namespace {

using Mode = CUstreamCaptureMode;
constexpr Mode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr Mode kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr Mode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
constexpr uint64_t kContext = 77;

StreamRef Stream(uint64_t key, bool blocking = true, uint64_t context = kContext) { return {key, context, false, blocking}; }
StreamRef Legacy(uint64_t context = kContext) { return {uint64_t{1} << 63 | context, context, true, false}; }

class CaptureTest : public testing::Test {
 protected:
  CaptureTable::Caller me_{1, kGlobal};
  CaptureTable::Caller other_{2, kGlobal};
  CaptureTable table_;
  bool capturing_ = false;

  CUstreamCaptureStatus StatusOf(const StreamRef& stream) {
    CaptureTable::Info info;
    EXPECT_EQ(table_.GetInfo(stream, &info), CUDA_SUCCESS);
    return info.status;
  }
  CUresult End(const CaptureTable::Caller& caller, const StreamRef& stream) {
    CaptureTable::Ending ending;
    const CUresult result = table_.End(caller, stream, &ending);
    // The server has to hear of every capture that ends here, and of no other.
    EXPECT_EQ(ending == CaptureTable::Ending::kGraph, result == CUDA_SUCCESS);
    ended_ = ending;
    return result;
  }
  CUresult Use(const StreamRef& stream) { return table_.CheckUse(stream, &capturing_); }
  CaptureTable::Ending ended_ = CaptureTable::Ending::kNone;
};

TEST_F(CaptureTest, NothingIsCapturedAtFirst) {
  EXPECT_TRUE(table_.idle());
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(table_.CheckUnsafe(me_), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckContext(kContext), CUDA_SUCCESS);
  EXPECT_EQ(Use(Legacy()), CUDA_SUCCESS);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(CaptureTest, BeginAndEnd) {
  EXPECT_EQ(table_.Begin(me_, Stream(1), kGlobal), CUDA_SUCCESS);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(StatusOf(Stream(2)), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(Use(Stream(1)), CUDA_SUCCESS);
  EXPECT_TRUE(capturing_);
  EXPECT_EQ(Use(Stream(2)), CUDA_SUCCESS);
  EXPECT_FALSE(capturing_);
  EXPECT_EQ(table_.Begin(me_, Stream(1), kGlobal), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(table_.Begin(me_, Stream(2), static_cast<Mode>(7)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(End(me_, Stream(2)), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE) << "none of these invalidates";
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
  EXPECT_TRUE(table_.idle());
  EXPECT_EQ(End(me_, Stream(1)), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(CaptureTest, IdsAreUnique) {
  CaptureTable::Info first, second;
  table_.Begin(me_, Stream(1), kGlobal);
  table_.GetInfo(Stream(1), &first);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
  table_.Begin(me_, Stream(1), kGlobal);
  table_.GetInfo(Stream(1), &second);
  EXPECT_NE(first.id, 0u);
  EXPECT_NE(first.id, second.id);
}

TEST_F(CaptureTest, UnsafeCallsOfTheCapturingThread) {
  for (Mode mode : {kGlobal, kThreadLocal}) {
    CaptureTable table;
    CaptureTable::Ending ending;
    table.Begin(me_, Stream(1), mode);
    EXPECT_EQ(table.CheckUnsafe(me_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(table.CheckUnsafe(me_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) << "until it ends";
    EXPECT_EQ(table.End(me_, Stream(1), &ending), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(ending, CaptureTable::Ending::kDiscard);
    EXPECT_EQ(table.CheckUnsafe(me_), CUDA_SUCCESS);
  }
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(table_.CheckUnsafe(me_), CUDA_SUCCESS);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
}

TEST_F(CaptureTest, AThreadThatExchangedItsModeMayDoUnsafeThings) {
  table_.Begin(me_, Stream(1), kGlobal);
  EXPECT_EQ(table_.CheckUnsafe({1, kRelaxed}), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckUnsafe({2, kRelaxed}), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckUnsafe({2, kThreadLocal}), CUDA_SUCCESS);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(table_.CheckUnsafe({1, kThreadLocal}), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) << "its own capture";
}

TEST_F(CaptureTest, OnlyGlobalCapturesForbidUnsafeCallsOfOtherThreads) {
  table_.Begin(me_, Stream(1), kThreadLocal);
  EXPECT_EQ(table_.CheckUnsafe(other_), CUDA_SUCCESS);
  table_.Begin(me_, Stream(2), kGlobal);
  EXPECT_EQ(table_.CheckUnsafe(other_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(StatusOf(Stream(2)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, QueriesOfCapturedStreamsInvalidateInEveryMode) {
  uint64_t key = 1;
  for (Mode mode : {kGlobal, kThreadLocal, kRelaxed}) {
    for (Mode thread_mode : {kGlobal, kThreadLocal, kRelaxed}) {
      const StreamRef stream = Stream(key++);
      const CaptureTable::Caller caller{1, thread_mode};
      table_.Begin(caller, stream, mode);
      EXPECT_EQ(table_.CheckQuery(caller, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
      EXPECT_EQ(table_.CheckQuery(caller, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      EXPECT_EQ(Use(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      EXPECT_EQ(End(caller, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    }
  }
}

TEST_F(CaptureTest, QueriesOfOtherStreamsAreUnsafe) {
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(table_.CheckQuery(me_, Stream(2)), CUDA_SUCCESS);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
  table_.Begin(me_, Stream(1), kThreadLocal);
  EXPECT_EQ(table_.CheckQuery(me_, Stream(2, false)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, ContextSynchronizeIsForbiddenWhileAnyOfItsStreamsIsCaptured) {
  table_.Begin(me_, Stream(1, false), kRelaxed);
  table_.Begin(me_, Stream(2, false, kContext + 1), kRelaxed);
  EXPECT_EQ(table_.CheckContext(kContext), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(StatusOf(Stream(1, false)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(StatusOf(Stream(2, false, kContext + 1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(table_.CheckContext(kContext), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(table_.CheckContext(kContext + 2), CUDA_SUCCESS);
}

TEST_F(CaptureTest, TheLegacyStreamBesideACapturedBlockingStream) {
  CaptureTable::Info info;
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(table_.GetInfo(Legacy(), &info), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE) << "asking for the status invalidates nothing";
  EXPECT_EQ(Use(Legacy(kContext + 1)), CUDA_SUCCESS) << "of another context";
  EXPECT_EQ(Use(Legacy()), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(Use(Legacy()), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) << "until it ends";
  EXPECT_EQ(table_.CheckQuery(me_, Legacy()), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(table_.Begin(me_, Legacy(), kRelaxed), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(End(me_, Legacy()), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(Use(Legacy()), CUDA_SUCCESS);
}

TEST_F(CaptureTest, TheLegacyStreamBesideACapturedNonBlockingStream) {
  table_.Begin(me_, Stream(1, false), kRelaxed);
  EXPECT_EQ(Use(Legacy()), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckQuery(me_, Legacy()), CUDA_SUCCESS);
  EXPECT_EQ(table_.Begin(me_, Legacy(), kRelaxed), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(End(me_, Legacy()), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(End(me_, Stream(1, false)), CUDA_SUCCESS);
}

TEST_F(CaptureTest, WhoMayEnd) {
  for (Mode mode : {kGlobal, kThreadLocal}) {
    table_.Begin(me_, Stream(1), mode);
    EXPECT_EQ(End(other_, Stream(1)), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT_EQ(ended_, CaptureTable::Ending::kDiscard) << "and the capture is over";
    EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(End(me_, Stream(1)), CUDA_ERROR_ILLEGAL_STATE);
  }
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(End(other_, Stream(1)), CUDA_SUCCESS);
  table_.Begin(me_, Stream(1), kGlobal);
  table_.CheckUnsafe(me_);
  EXPECT_EQ(End(other_, Stream(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << "an invalidated one anybody may end";
  EXPECT_TRUE(table_.idle());
}

TEST_F(CaptureTest, ForkAndJoin) {
  table_.Begin(me_, Stream(1), kGlobal);
  EXPECT_EQ(table_.RecordEvent(10, Stream(1), false, &capturing_), CUDA_SUCCESS);
  EXPECT_TRUE(capturing_);
  EXPECT_EQ(table_.WaitEvent(Stream(2), 10, false, false, &capturing_), CUDA_SUCCESS);
  EXPECT_TRUE(capturing_);
  EXPECT_EQ(StatusOf(Stream(2)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CaptureTable::Info first, second;
  table_.GetInfo(Stream(1), &first);
  table_.GetInfo(Stream(2), &second);
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(table_.RecordEvent(11, Stream(2), false, &capturing_), CUDA_SUCCESS);
  EXPECT_EQ(table_.WaitEvent(Stream(1), 11, false, false, &capturing_), CUDA_SUCCESS);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
  EXPECT_EQ(StatusOf(Stream(2)), CU_STREAM_CAPTURE_STATUS_NONE) << "all streams leave capture together";
}

TEST_F(CaptureTest, EndingOnAForkedStream) {
  table_.Begin(me_, Stream(1), kGlobal);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  table_.WaitEvent(Stream(2), 10, false, false, &capturing_);
  EXPECT_EQ(End(me_, Stream(2)), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(ended_, CaptureTable::Ending::kNone);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureTest, MergingTwoCapturesInvalidatesBoth) {
  table_.Begin(me_, Stream(1), kRelaxed);
  table_.Begin(me_, Stream(2), kRelaxed);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  EXPECT_EQ(table_.WaitEvent(Stream(2), 10, false, false, &capturing_), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(StatusOf(Stream(2)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, WaitingForWorkOutsideOfTheCapture) {
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(table_.WaitEvent(Stream(1), 10, false, false, &capturing_), CUDA_SUCCESS) << "never recorded";
  EXPECT_EQ(table_.WaitEvent(Stream(1), 10, true, true, &capturing_), CUDA_SUCCESS) << "an external wait node";
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(table_.WaitEvent(Stream(1), 10, true, false, &capturing_), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, TheLegacyStreamCannotJoin) {
  table_.Begin(me_, Stream(1, false), kRelaxed);
  table_.RecordEvent(10, Stream(1, false), false, &capturing_);
  EXPECT_EQ(table_.WaitEvent(Legacy(), 10, false, false, &capturing_), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(StatusOf(Stream(1, false)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, ExternalRecordsAndWaitsNeedACapture) {
  EXPECT_EQ(table_.RecordEvent(10, Stream(1), true, &capturing_), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(table_.WaitEvent(Stream(1), 10, true, true, &capturing_), CUDA_ERROR_ILLEGAL_STATE);
  table_.Begin(me_, Stream(1), kRelaxed);
  EXPECT_EQ(table_.RecordEvent(10, Stream(2), true, &capturing_), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(table_.RecordEvent(10, Stream(1), true, &capturing_), CUDA_SUCCESS);
  EXPECT_TRUE(capturing_);
  EXPECT_EQ(table_.CheckEventQuery({1, kRelaxed}, 10), CUDA_SUCCESS) << "not a captured event";
}

TEST_F(CaptureTest, CapturedEvents) {
  table_.Begin(me_, Stream(1), kRelaxed);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  EXPECT_EQ(table_.CheckEventTime(10), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE) << "elapsed time invalidates nothing";
  table_.RecordEvent(10, Stream(2), false, &capturing_);
  EXPECT_FALSE(capturing_);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_SUCCESS) << "recorded outside since";
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.WaitEvent(Stream(3), 10, false, false, &capturing_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(StatusOf(Stream(3)), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureTest, EventsOfACaptureThatHasEnded) {
  table_.Begin(me_, Stream(1), kRelaxed);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  EXPECT_EQ(End(me_, Stream(1)), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.CheckEventTime(10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.WaitEvent(Stream(1), 10, true, false, &capturing_), CUDA_ERROR_INVALID_VALUE);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_SUCCESS);
}

TEST_F(CaptureTest, EventQueriesAreUnsafe) {
  table_.Begin(me_, Stream(1), kThreadLocal);
  EXPECT_EQ(table_.CheckEventQuery(other_, 10), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, DestroyedStreams) {
  table_.Begin(me_, Stream(1), kGlobal);
  table_.RecordEvent(10, Stream(1), false, &capturing_);
  table_.WaitEvent(Stream(2), 10, false, false, &capturing_);
  table_.ForgetStream(2);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  table_.ForgetStream(1);
  EXPECT_TRUE(table_.idle());
  EXPECT_EQ(table_.CheckUnsafe(me_), CUDA_SUCCESS);
  EXPECT_EQ(table_.CheckEventQuery(me_, 10), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CaptureTest, ContextsThatEndTakeTheirCapturesAlong) {
  table_.Begin(me_, Stream(1), kGlobal);
  table_.Begin(me_, Stream(2, true, kContext + 1), kGlobal);
  table_.ForgetContext(kContext);
  EXPECT_EQ(StatusOf(Stream(1)), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(StatusOf(Stream(2, true, kContext + 1)), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

TEST_F(CaptureTest, OnlyTheServerKnowsAfterAFailedCall) {
  CaptureTable::Info info;
  table_.Begin(me_, Stream(1), kRelaxed);
  table_.SetUncertain(Stream(1));
  table_.GetInfo(Stream(1), &info);
  EXPECT_TRUE(info.uncertain);
  table_.SetStatus(Stream(1), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  table_.GetInfo(Stream(1), &info);
  EXPECT_FALSE(info.uncertain);
  EXPECT_EQ(info.status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  table_.SetUncertain(Stream(1));
  table_.SetStatus(Stream(1), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  table_.GetInfo(Stream(1), &info);
  EXPECT_EQ(info.status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureTest, ThreadsCaptureIndependently) {
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t <= 4; ++t) {
    threads.emplace_back([this, t] {
      const CaptureTable::Caller caller{t, kThreadLocal};
      bool capturing = false;
      for (int round = 0; round < 2000; ++round) {
        const StreamRef stream = Stream(t * 10), fork = Stream(t * 10 + 1);
        ASSERT_EQ(table_.Begin(caller, stream, kThreadLocal), CUDA_SUCCESS);
        ASSERT_EQ(table_.RecordEvent(t, stream, false, &capturing), CUDA_SUCCESS);
        ASSERT_EQ(table_.WaitEvent(fork, t, true, false, &capturing), CUDA_SUCCESS);
        ASSERT_EQ(table_.CheckUse(fork, &capturing), CUDA_SUCCESS);
        ASSERT_TRUE(capturing);
        CaptureTable::Ending ending;
        if (round % 3 == 0) {
          ASSERT_EQ(table_.CheckUnsafe(caller), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
          ASSERT_EQ(table_.End(caller, stream, &ending), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        } else {
          ASSERT_EQ(table_.End(caller, stream, &ending), CUDA_SUCCESS);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(table_.idle());
}

}  // namespace
}  // namespace tessera
