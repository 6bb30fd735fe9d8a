// The worker's core with both real ends of a channel in one process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "protocol/base/clock.h"
#include "server/worker/answer_hub.h"
#include "server/worker/completion.h"
#include "server/worker/object_table.h"
#include "server/worker/reply_writer.h"
#include "server/worker/thread_streams.h"
#include "tests/server/worker/fake_dispatch.h"
#include "tests/server/worker/fake_driver.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

uint64_t Number(const TestReply& reply, size_t index = 0) {
  uint64_t number = 0;
  if (reply.payload.size() >= 8 * (index + 1)) std::memcpy(&number, reply.payload.data() + 8 * index, 8);
  return number;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() { g_test_release = false; }

  // A context of the driver under a handle of the client.
  HandleId NewContext(uint32_t slot, CUcontext* object = nullptr) {
    const CUcontext context = driver_.NewContext();
    const HandleId id = HandleId::Of(0, HandleKind::kContext, 1, slot);
    EXPECT_TRUE(client_.worker().objects().Insert(id, reinterpret_cast<uint64_t>(context)));
    if (object != nullptr) *object = context;
    return id;
  }
  HandleId NewStream(uint32_t slot, CUcontext context, CUstream* object) {
    *object = driver_.NewStream(context);
    const HandleId id = HandleId::Of(0, HandleKind::kStream, 1, slot);
    EXPECT_TRUE(client_.worker().objects().Insert(id, reinterpret_cast<uint64_t>(*object)));
    return id;
  }

  FakeDriver driver_;
  TestClient client_{driver_.table()};
};

TEST_F(SessionTest, AnswersRecordsInOrder) {
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t sequence = client_.Send(kTestEcho, kWantsReply, 7, {}, BytesOf(i));
    const auto reply = client_.Next();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.kind, static_cast<uint32_t>(ReplyKind::kReply));
    EXPECT_EQ(reply->header.sequence, sequence);
    EXPECT_EQ(reply->header.thread, 7u);
    EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
    EXPECT_EQ(Number(*reply), i);
  }
}

TEST_F(SessionTest, ACallWithoutReplyIsSilentUnlessItFails) {
  const uint32_t success = CUDA_SUCCESS;
  const uint32_t failure = CUDA_ERROR_INVALID_VALUE;
  HandleId context = NewContext(1);
  client_.Send(kTestResult, 0, 3, context, BytesOf(success));
  const uint64_t failed = client_.Send(kTestResult, 0, 3, context, BytesOf(failure));
  client_.Send(kTestEcho);
  const auto notice = client_.Next();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->header.kind, static_cast<uint32_t>(NoticeKind::kDeferredError));
  EXPECT_EQ(notice->header.sequence, failed);
  EXPECT_EQ(notice->header.thread, 3u);
  EXPECT_EQ(notice->header.result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(notice->header.extra, context.value());
  const auto reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.kind, static_cast<uint32_t>(ReplyKind::kReply));
}

TEST_F(SessionTest, ABlockingCallDoesNotHoldUpOtherThreads) {
  const uint64_t blocked = client_.Send(kTestBlock, kWantsReply, 1);
  const uint64_t other = client_.Send(kTestEcho, kWantsReply, 2);
  auto reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.sequence, other);
  g_test_release = true;
  reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.sequence, blocked);
}

TEST_F(SessionTest, EachRecordRunsInItsContextOnEveryThread) {
  CUcontext first_object = nullptr;
  CUcontext second_object = nullptr;
  const HandleId first = NewContext(1, &first_object);
  const HandleId second = NewContext(2, &second_object);
  g_test_release = true;
  for (int round = 0; round < 3; ++round) {
    for (const uint32_t call : {kTestContext, kTestBlock}) {
      client_.Send(call, kWantsReply, 1, first);
      EXPECT_EQ(Number(*client_.Next()), reinterpret_cast<uint64_t>(first_object));
      client_.Send(call, kWantsReply, 2, second);
      EXPECT_EQ(Number(*client_.Next()), reinterpret_cast<uint64_t>(second_object));
      client_.Send(call, kWantsReply, 3);
      EXPECT_EQ(Number(*client_.Next()), 0u);
    }
  }
}

TEST_F(SessionTest, WorkerThreadsAreInRelaxedCaptureMode) {
  client_.Send(kTestContext);
  EXPECT_EQ(Number(*client_.Next(), 1), uint64_t{CU_STREAM_CAPTURE_MODE_RELAXED});
}

TEST_F(SessionTest, AContextThatIsNotLiveMeansNone) {
  client_.Send(kTestContext, kWantsReply, 1, HandleId::Of(0, HandleKind::kContext, 1, 99));
  EXPECT_EQ(Number(*client_.Next()), 0u);
}

TEST_F(SessionTest, PerThreadStreamsAreOnePerThreadAndContext) {
  const HandleId first = NewContext(1);
  const HandleId second = NewContext(2);
  std::set<uint64_t> streams;
  const HandleId own(2);
  const HandleId zero(0);
  const auto stream_of = [&](uint32_t thread, HandleId context, const HandleId& id, uint32_t flags) {
    client_.Send(kTestUseStream, kWantsReply | flags, thread, context, BytesOf(id));
    const auto reply = client_.Next();
    EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
    return Number(*reply);
  };
  for (const uint32_t thread : {1u, 2u}) {
    for (const HandleId context : {first, second}) {
      const uint64_t stream = stream_of(thread, context, own, 0);
      EXPECT_GT(stream, 2u);
      EXPECT_EQ(stream_of(thread, context, zero, kPerThreadStream), stream);
      EXPECT_EQ(stream_of(thread, context, own, kPerThreadStream), stream);
      streams.insert(stream);
    }
  }
  EXPECT_EQ(streams.size(), 4u);
  EXPECT_EQ(stream_of(1, first, zero, 0), 0u);
  EXPECT_EQ(stream_of(1, first, HandleId(1), kPerThreadStream), 1u);

  const uint32_t ended = 1;
  client_.Send(kTestThreadEnded, 0, 2, {}, BytesOf(ended));
  client_.Send(kTestEcho);
  ASSERT_TRUE(client_.Next().has_value());
  EXPECT_EQ(driver_.streams_live(), 2u);
}

TEST_F(SessionTest, OwnStreamWithoutContextIsAnError) {
  const HandleId own(2);
  client_.Send(kTestUseStream, kWantsReply, 1, {}, BytesOf(own));
  EXPECT_EQ(client_.Next()->header.result, CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(SessionTest, HandlesAreCheckedForKindAndLife) {
  const HandleId event = HandleId::Of(0, HandleKind::kEvent, 1, 5);
  struct {
    HandleId id;
    uint64_t object;
  } made{event, 0x77};
  client_.Send(kTestNewEvent, 0, 1, {}, BytesOf(made));
  client_.Send(kTestUseEvent, kWantsReply, 1, {}, BytesOf(event));
  auto reply = client_.Next();
  EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
  EXPECT_EQ(Number(*reply), 0x77u);
  client_.Send(kTestUseStream, kWantsReply, 1, {}, BytesOf(event));  // an event where a stream belongs
  EXPECT_EQ(client_.Next()->header.result, CUDA_ERROR_INVALID_HANDLE);
  const HandleId dead = HandleId::Of(0, HandleKind::kEvent, 2, 5);
  client_.Send(kTestUseEvent, kWantsReply, 1, {}, BytesOf(dead));
  EXPECT_EQ(client_.Next()->header.result, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SessionTest, ASynchroniseDoesNotHoldUpOtherThreads) {
  CUcontext context_object = nullptr;
  const HandleId context = NewContext(1, &context_object);
  CUstream stream_object = nullptr;
  const HandleId stream = NewStream(100, context_object, &stream_object);
  driver_.SetIdle(false);
  const uint64_t synchronise = client_.Send(kTestSync, kWantsReply, 1, context, BytesOf(stream));
  const uint64_t other = client_.Send(kTestEcho, kWantsReply, 2);
  EXPECT_EQ(client_.Next()->header.sequence, other);
  driver_.FinishWork(stream_object, CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.sequence, synchronise);
  EXPECT_EQ(reply->header.result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(SessionTest, AnAnswerReleasesTheThreadThatWaitsForIt) {
  const uint64_t call = client_.Send(kTestHostFunction);
  const auto request = client_.Next();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->header.kind, static_cast<uint32_t>(NoticeKind::kHostFunction));
  client_.Answer(request->header.extra);
  const auto reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.sequence, call);
  EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
}

TEST_F(SessionTest, ScratchIsBounded) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{1} << 20, uint64_t{15} << 20}) {
    client_.Send(kTestScratch, kWantsReply, 1, {}, BytesOf(bytes));
    EXPECT_EQ(client_.Next()->header.result, CUDA_SUCCESS) << bytes;
  }
  for (const uint64_t bytes : {uint64_t{17} << 20, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    client_.Send(kTestScratch, kWantsReply, 1, {}, BytesOf(bytes));
    EXPECT_EQ(client_.Next()->header.result, CUDA_ERROR_OUT_OF_MEMORY) << bytes;
  }
}

TEST_F(SessionTest, AClientThatLeavesEndsTheSessionInOrder) {
  client_.Send(kTestEcho);
  ASSERT_TRUE(client_.Next().has_value());
  client_.Leave();
  const Status why = client_.Join();
  EXPECT_TRUE(why.ok()) << why.message();
}

// Each is a record that no correct client sends; the session ends and says why.
class ViolationTest : public SessionTest, public testing::WithParamInterface<RecordHeader> {};

TEST_P(ViolationTest, EndsTheSession) {
  client_.SendHeader(GetParam());
  const Status why = client_.Join();
  EXPECT_EQ(why.code(), StatusCode::kProtocolViolation) << why.message();
  EXPECT_FALSE(client_.Next(1000).has_value());
}

RecordHeader Header(uint32_t call, uint32_t flags, uint32_t thread, uint64_t sequence) {
  RecordHeader header{};
  header.call = call;
  header.flags = flags;
  header.thread = thread;
  header.sequence = sequence;
  return header;
}

INSTANTIATE_TEST_SUITE_P(Headers, ViolationTest,
                         testing::Values(Header(kTestEcho, 1u << 31, 1, 1),      // unknown flag
                                         Header(kTestEcho, kWantsReply, 0, 1),   // no thread
                                         Header(kTestEcho, kWantsReply, 1, 0),   // sequence does not count from 1
                                         Header(kTestEcho, kWantsReply, 1, 2),   // a record is missing
                                         Header(0xffff, kWantsReply, 1, 1),      // unknown call
                                         Header(kTestResult, kWantsReply, 1, 1)  // message too short
                                         ));

TEST_F(SessionTest, AHandleThatMayNotBeMintedEndsTheSession) {
  struct {
    HandleId id;
    uint64_t object;
  } made{HandleId::Of(0, HandleKind::kEvent, 1, HandleId::kServerMinted), 1};
  client_.Send(kTestNewEvent, 0, 1, {}, BytesOf(made));
  EXPECT_EQ(client_.Join().code(), StatusCode::kProtocolViolation);
}

TEST_F(SessionTest, ThreadsThatWaitForAnAnswerAreReleasedAtTheEnd) {
  client_.Send(kTestHostFunction);
  ASSERT_TRUE(client_.Next().has_value());
  client_.Leave();
  EXPECT_TRUE(client_.Join().ok());  // the destructor of the worker would wait for ever if the thread were still held
}

// Work may name changes of host memory that are still on their way.
TEST_F(SessionTest, WhoWaitsForChangesGoesOnWhenAllOfThemAreTaken) {
  std::atomic<int> taken{0};
  client_.worker().answers().OnHostChanges([&](std::span<const std::byte>) {
    ++taken;
    return true;
  });
  ReplyHeader change{};
  change.size_bytes = sizeof(change);
  change.kind = static_cast<uint32_t>(AnswerKind::kHostChanges);
  std::atomic<int> taken_then{-1};
  std::thread waits([&] {
    client_.worker().answers().AwaitHostChanges(3);
    taken_then = taken.load();
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(taken_then, -1);
    ASSERT_TRUE(client_.channel().answers_out().TryAppend(BytesOf(change)));
  }
  waits.join();
  EXPECT_EQ(taken_then, 3);
}

TEST_F(SessionTest, ChangesThatNeverComeHoldNobodyUpAtTheEnd) {
  std::thread waits([&] { client_.worker().answers().AwaitHostChanges(1); });
  client_.Leave();
  EXPECT_TRUE(client_.Join().ok());
  waits.join();
}

// What the client has to know before it hears of anything else.
TEST_F(SessionTest, WhatComesBeforeAReplyIsSentBeforeIt) {
  std::atomic<int> asked{0};
  client_.worker().replies().BeforeSending([&](ReplyKind) {
    ++asked;
    client_.worker().SendNotice(NoticeKind::kHostChanges, 0);
  });
  client_.Send(kTestEcho);
  const auto changes = client_.Next();
  ASSERT_TRUE(changes.has_value());
  EXPECT_EQ(changes->header.kind, static_cast<uint32_t>(ReplyKind::kHostChanges));
  const auto reply = client_.Next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.kind, static_cast<uint32_t>(ReplyKind::kReply));
  EXPECT_EQ(asked, 1) << "changes need nothing before them";
}

// What a host function asks is not held up by an executor that is blocked until this function returns, and overtakes nothing.
TEST_F(SessionTest, ARecordGoesAsideOfABlockedExecutor) {
  g_test_release = false;
  const uint64_t before = client_.Send(kTestEcho);
  ASSERT_EQ(client_.Next()->header.sequence, before);
  const uint64_t stalled = client_.Send(kTestStall);
  const uint64_t behind = client_.Send(kTestEcho);
  for (const uint64_t after : {uint64_t{0}, before}) {
    const uint64_t aside = client_.SendAside(kTestEcho, after, BytesOf(after));
    const auto reply = client_.Next();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.sequence, aside);
    EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
    EXPECT_EQ(reply->payload.size(), sizeof(after));
  }
  for (const uint64_t after : {stalled, behind, behind + 100}) {
    const uint64_t aside = client_.SendAside(kTestEcho, after, BytesOf(after));
    const auto reply = client_.Next();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.sequence, aside);
    EXPECT_EQ(reply->header.result, kAsideBehind);
  }
  g_test_release = true;
  EXPECT_EQ(client_.Next()->header.sequence, stalled);
  EXPECT_EQ(client_.Next()->header.sequence, behind);
  client_.SendAside(kTestEcho, behind);
  EXPECT_EQ(client_.Next()->header.result, CUDA_SUCCESS);
}

TEST_F(SessionTest, OnlyWhatTheSpecSaysGoesAside) {
  client_.SendAside(kTestResult, 0, BytesOf(uint32_t{0}));
  EXPECT_EQ(client_.Join().code(), StatusCode::kProtocolViolation);
}

// Host functions and visits that are under way: as many as the client has streams.
TEST_F(SessionTest, RequestsHaveNoBoundAndEndWithTheSession) {
  constexpr int kMany = 10'000;
  AnswerHub& answers = client_.worker().answers();
  std::atomic<int> ended{0};
  std::atomic<bool> seventh{false};
  for (int i = 1; i <= kMany; ++i) {
    ASSERT_NE(answers.Open([&, i] {
      ++ended;
      if (i == 7) seventh = true;
    }),
              0u);
  }
  const uint64_t cancelled = answers.Open([&] { ++ended; });
  answers.Cancel(cancelled);
  client_.Answer(7);
  while (!seventh) std::this_thread::yield();
  EXPECT_EQ(ended, 1);
  client_.Answer(7);  // said twice, and for one that was given up: no mistake
  client_.Answer(cancelled);
  client_.Leave();
  EXPECT_TRUE(client_.Join().ok());
  answers.Stop();
  EXPECT_EQ(ended, kMany);
  EXPECT_EQ(answers.Open(), 0u);
}

TEST(SessionBackpressure, ASlowReaderSlowsTheWorkerDownWithoutLoss) {
  FakeDriver driver;
  ChannelSizes sizes;
  sizes.reply_bytes = 64 << 10;
  TestClient client(driver.table(), sizes);
  const uint32_t count = 2000;  // 2 MB through a ring of 64 KiB
  client.Send(kTestFlood, kWantsReply, 1, {}, BytesOf(count));
  for (uint32_t left = count; left > 0; --left) {
    const auto notice = client.Next();
    ASSERT_TRUE(notice.has_value());
    ASSERT_EQ(notice->header.kind, static_cast<uint32_t>(NoticeKind::kDeviceOutput));
    ASSERT_EQ(notice->header.extra, left);
    ASSERT_EQ(notice->payload.size(), 1024u);
  }
  EXPECT_EQ(client.Next()->header.kind, static_cast<uint32_t>(ReplyKind::kReply));
}

TEST(SessionBackpressure, AClientThatNeverReadsLosesItsSession) {
  FakeDriver driver;
  ChannelSizes sizes;
  sizes.reply_bytes = 64 << 10;
  WorkerOptions options;
  options.reply_wait_ns = 200'000'000;
  TestClient client(driver.table(), sizes, options);
  const uint64_t begin_ns = MonotonicNs();
  client.Send(kTestFlood, kWantsReply, 1, {}, BytesOf(uint32_t{2000}));
  const Status why = client.Join();
  EXPECT_EQ(why.code(), StatusCode::kTimedOut);
  EXPECT_NE(why.message().find("not read its replies for 200 ms"), std::string::npos) << why.message();
  EXPECT_GE(MonotonicNs() - begin_ns, 200'000'000u);
  EXPECT_LE(MonotonicNs() - begin_ns, 5'000'000'000u);
}

// Both rings full at once: the client sends without reading, the worker answers without being heard. Neither waits for the
// other's ring while it holds up its own, so reading resumes everything.
TEST(SessionBackpressure, BothRingsFullIsNoDeadlock) {
  FakeDriver driver;
  ChannelSizes sizes;
  sizes.reply_bytes = 16 << 10;
  sizes.command_bytes = 4 << 10;
  TestClient client(driver.table(), sizes);
  uint64_t sent = 0;
  const auto record = [&] {
    std::vector<std::byte> bytes(PaddedRecordBytes(sizeof(RecordHeader) + 4));
    RecordHeader header{};
    header.call = kTestFlood;
    header.flags = kWantsReply;
    header.thread = 1;
    header.sequence = sent + 1;
    const uint32_t one = 1;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &one, sizeof(one));
    return bytes;
  };
  const uint64_t full_ns = MonotonicNs() + 300'000'000;
  while (MonotonicNs() < full_ns) {
    if (client.channel().commands_out().TryAppend(record())) ++sent;
  }
  EXPECT_FALSE(client.channel().commands_out().TryAppend(record()));
  uint64_t replies = 0;
  while (replies < sent) {
    const auto next = client.Next();
    ASSERT_TRUE(next.has_value());
    if (next->header.kind == static_cast<uint32_t>(ReplyKind::kReply)) ++replies;
  }
}

TEST(SessionBackpressure, AWorkerThatWaitsForAReaderNoticesItsEnd) {
  FakeDriver driver;
  ChannelSizes sizes;
  sizes.reply_bytes = 64 << 10;
  TestClient client(driver.table(), sizes);
  const uint32_t count = 2000;
  client.Send(kTestFlood, kWantsReply, 1, {}, BytesOf(count));
  ASSERT_TRUE(client.Next().has_value());
  client.Leave();
  EXPECT_NE(client.Join().code(), StatusCode::kTimedOut);  // hangs when the wait for ring space does not end
}

}  // namespace
}  // namespace tessera
