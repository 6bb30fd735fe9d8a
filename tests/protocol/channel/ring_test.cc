#include "protocol/channel/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "protocol/wire/record.h"
#include "tests/protocol/channel/ring_fixture.h"

namespace tessera {
namespace {

static_assert(kRingPadId == kPadRecord && kRingRecordAlignment == kRecordAlignment);
static_assert(kRingRecordBytesMin == sizeof(RecordHeader) && kRingRecordBytesMin == sizeof(ReplyHeader));

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kManyRecords = 100'000;
#else
constexpr uint64_t kManyRecords = 1'000'000;
#endif

std::vector<std::byte> Record(size_t size, uint64_t number = 0) {
  std::vector<std::byte> record(size);
  FillTestRecord(number, record);
  return record;
}

TEST(Ring, GivesBackWhatWasAppendedInOrder) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  EXPECT_TRUE(in.Peek().empty());
  EXPECT_FALSE(in.HasRecord());
  ASSERT_TRUE(out.TryAppend(Record(33, 1)));
  ASSERT_TRUE(out.TryAppend(Record(64, 2)));
  EXPECT_EQ(out.position(), 40 + 64u);
  const auto first = in.Peek();
  ASSERT_EQ(first.size(), 40u);
  EXPECT_EQ(in.Peek().data(), first.data());  // still the oldest
  EXPECT_EQ(first[33], std::byte{0});         // padding is zero
  in.Release();
  RecordBuffer buffer;
  const auto second = in.CopyOut(&buffer);
  ASSERT_EQ(second.size(), 64u);
  uint64_t word = 0;
  std::memcpy(&word, second.data() + 8, sizeof(word));
  EXPECT_EQ(word, 2 + 8u);
  EXPECT_TRUE(in.Peek().empty());
  EXPECT_EQ(in.position(), out.position());
}

TEST(Ring, RefusesSizesThatDoNotBelong) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  EXPECT_FALSE(out.TryAppend(Record(24)));
  EXPECT_FALSE(out.TryAppend(Record(1025)));
  EXPECT_EQ(out.WaitForSpace(1025, kNoDeadline, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(out.WaitForSpace(0, kNoDeadline, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(out.TryAppend(Record(1024)));
}

TEST(Ring, RecordsNeverSplit) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  for (int round = 0; round < 1000; ++round) {
    const size_t size = 32 + 8 * (static_cast<size_t>(round) * 7 % 125);
    ASSERT_TRUE(out.TryAppend(Record(size, static_cast<uint64_t>(round))));
    const auto record = in.Peek();
    ASSERT_EQ(record.size(), size);
    ASSERT_GE(record.data(), ring.memory.data);
    ASSERT_LE(record.data() + record.size(), ring.memory.data + 4096);
    in.Release();
  }
}

TEST(Ring, FillsUpAndTakesMoreAfterARelease) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(out.TryAppend(Record(1024)));
  EXPECT_FALSE(out.TryAppend(Record(32)));
  EXPECT_EQ(out.WaitForSpace(32, MonotonicNs() + 1'000'000, {}).code(), StatusCode::kTimedOut);
  in.Peek();
  in.Release();
  EXPECT_TRUE(out.WaitForSpace(1024, kNoDeadline, {}).ok());
  EXPECT_TRUE(out.TryAppend(Record(1024)));
  EXPECT_FALSE(out.TryAppend(Record(32)));
}

// Each end is taken up again and again by another process of its side, wherever the ring is.
TEST(Ring, GoesOnWhereAnotherStopped) {
  RingInMemory ring(4096);
  uint64_t appended = 0;
  uint64_t read = 0;
  for (int round = 0; round < 1000; ++round) {
    RingProducer out(ring.memory);
    ASSERT_TRUE(out.GoOn().ok()) << round;
    out.TryReserve(40);  // which is not committed
    for (int i = 0; i < 3 && out.TryAppend(Record(32 + 8 * (appended * 7 % 60), appended)); ++i) ++appended;
    RingConsumer in(ring.memory);
    ASSERT_TRUE(in.GoOn().ok()) << round;
    for (int i = 0; i < 2; ++i) {
      const auto record = in.Peek();
      ASSERT_EQ(record.size(), 32 + 8 * (read * 7 % 60)) << round;
      in.Release();
      ++read;
    }
    in.Peek();  // and not released
  }
  EXPECT_GT(appended, 2000u);
}

TEST(Ring, GoesOnWithNothingThatIsNoRing) {
  constexpr std::pair<uint64_t, uint64_t> kHeadsAndTails[] = {{0, 8}, {4104, 0}, {64, 4}, {4, 0}, {uint64_t{1} << 63, 0}};
  for (const auto& [head, tail] : kHeadsAndTails) {
    RingInMemory ring(4096);
    ring.memory.header->head = head;
    ring.memory.header->tail = tail;
    EXPECT_EQ(RingProducer(ring.memory).GoOn().code(), StatusCode::kProtocolViolation) << head << ' ' << tail;
    EXPECT_EQ(RingConsumer(ring.memory).GoOn().code(), StatusCode::kProtocolViolation) << head << ' ' << tail;
  }
}

TEST(Ring, AReservationIsInvisibleUntilCommitAndMayBeDropped) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  ASSERT_NE(out.TryReserve(512), nullptr);
  EXPECT_TRUE(in.Peek().empty());
  std::byte* room = out.TryReserve(40);
  FillTestRecord(5, {room, 40});
  out.Commit();
  EXPECT_EQ(in.Peek().size(), 40u);
}

TEST(Ring, WaitEndsByDeadlineOrStop) {
  RingInMemory ring(4096);
  RingConsumer in(ring.memory);
  const uint64_t begin_ns = MonotonicNs();
  EXPECT_EQ(in.Wait(begin_ns + 5'000'000, {}).code(), StatusCode::kTimedOut);
  EXPECT_GE(MonotonicNs() - begin_ns, 5'000'000u);
  const StopPredicate stop = [] { return Status(StatusCode::kUnavailable, "gone"); };
  EXPECT_EQ(in.Wait(kNoDeadline, stop).code(), StatusCode::kUnavailable);
  EXPECT_LT(MonotonicNs() - begin_ns, 2'000'000'000u);
}

// `append(producer)` appends a record of 32 bytes; a consumer that sleeps hears of it.
template <typename Append>
void ExpectWoken(const Append& append) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  for (int round = 0; round < 20; ++round) {
    const uint32_t sleeps = ring.memory.header->consumer_sleeps.load();
    std::thread consumer([&] {
      EXPECT_TRUE(in.Wait(kNoDeadline, {}).ok());
      EXPECT_FALSE(in.Peek().empty());
      in.Release();
    });
    while (ring.memory.header->consumer_sleeps.load() == sleeps) std::this_thread::yield();
    const uint64_t begin_ns = MonotonicNs();
    append(out);
    consumer.join();
    // A lost wake-up would cost a whole slice every time; one round may be slow for other reasons.
    if (MonotonicNs() - begin_ns < kWaitSliceNs / 2) return;
  }
  FAIL() << "every wake-up took as long as a slice";
}

TEST(Ring, ASleepingConsumerIsWoken) {
  ExpectWoken([](RingProducer& out) { EXPECT_TRUE(out.TryAppend(Record(32))); });
}

TEST(Ring, ASleepingConsumerIsWokenByALightCommit) {
  ExpectWoken([](RingProducer& out) {
    EXPECT_NE(out.TryReserve(32), nullptr);
    out.CommitLightly();
  });
}

// The producer commits just when the consumer goes to sleep, again and again: what it misses, its second look finds, and what
// comes later wakes it.
TEST(Ring, ALightCommitIsNeverMissedForASlice) {
  RingInMemory there(4096), back(4096);
  RingProducer out(there.memory), echo_out(back.memory);
  RingConsumer echo_in(there.memory), in(back.memory);
  constexpr int kRounds = 2'000;
  std::thread echo([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (echo_in.Peek().empty()) ASSERT_TRUE(echo_in.Wait(kNoDeadline, {}).ok());
      echo_in.Release();
      ASSERT_TRUE(echo_out.TryAppend(Record(32)));
    }
  });
  int slow = 0;
  for (int i = 0; i < kRounds; ++i) {
    // Between 0 and some 60 us: while it spins, as it goes to sleep, when it sleeps.
    const uint64_t until_ns = MonotonicNs() + static_cast<uint64_t>(i % 64) * 1'000;
    while (MonotonicNs() < until_ns) {
    }
    const uint64_t begin_ns = MonotonicNs();
    ASSERT_NE(out.TryReserve(32), nullptr);
    out.CommitLightly();
    while (in.Peek().empty()) ASSERT_TRUE(in.Wait(kNoDeadline, {}).ok());
    in.Release();
    if (MonotonicNs() - begin_ns > kWaitSliceNs / 2) ++slow;
  }
  echo.join();
  EXPECT_LT(slow, kRounds / 100);  // a busy machine may keep a thread from its core
}

TEST(Ring, ASleepingProducerIsWoken) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  for (int round = 0; round < 20; ++round) {
    while (out.TryAppend(Record(512))) {
    }
    const uint32_t sleeps = ring.memory.header->producer_sleeps.load();
    std::thread producer([&] { EXPECT_TRUE(out.WaitForSpace(512, kNoDeadline, {}).ok()); });
    while (ring.memory.header->producer_sleeps.load() == sleeps) std::this_thread::yield();
    const uint64_t begin_ns = MonotonicNs();
    while (!in.Peek().empty()) in.Release();
    producer.join();
    if (MonotonicNs() - begin_ns < kWaitSliceNs / 2) return;
  }
  FAIL() << "every wake-up took as long as a slice";
}

TEST(Ring, StopIsAskedSoonAfterWakeWaiters) {
  RingInMemory ring(4096);
  RingConsumer in(ring.memory);
  std::atomic<bool> stopped{false};
  const StopPredicate stop = [&] { return stopped ? Status(StatusCode::kUnavailable, "stopped") : Status::Ok(); };
  std::thread waiter([&] { EXPECT_EQ(in.Wait(kNoDeadline, stop).code(), StatusCode::kUnavailable); });
  while (ring.memory.header->consumer_sleeps.load() == 0) std::this_thread::yield();
  stopped = true;
  in.WakeWaiters();
  waiter.join();
}

TEST(Ring, MillionsOfRecordsBetweenTwoThreads) {
  RingInMemory ring(64 << 10);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  std::thread producer([&] { EXPECT_TRUE(ProduceTestRecords(out, kManyRecords, {}).ok()); });
  const Status status = ConsumeTestRecords(in, kManyRecords, out.record_bytes_max(), {});
  producer.join();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(in.Peek().empty());
}

TEST(Ring, BothWaysFullAtOnce) {
  RingInMemory there(4096), back(4096);
  RingProducer out(there.memory), echo_out(back.memory);
  RingConsumer echo_in(there.memory), in(back.memory);
  constexpr uint64_t kCount = kManyRecords / 10;
  std::thread echo([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      while (echo_in.Peek().empty()) ASSERT_TRUE(echo_in.Wait(kNoDeadline, {}).ok());
      const auto record = echo_in.Peek();
      while (!echo_out.TryAppend(record)) ASSERT_TRUE(echo_out.WaitForSpace(record.size(), kNoDeadline, {}).ok());
      echo_in.Release();
    }
  });
  std::thread producer([&] { EXPECT_TRUE(ProduceTestRecords(out, kCount, {}).ok()); });
  const Status status = ConsumeTestRecords(in, kCount, out.record_bytes_max(), {});
  producer.join();
  echo.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Ring, SeveralThreadsAppendUnderALockAndWaitWithoutIt) {
  RingInMemory ring(4096);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  constexpr int kThreads = 4;
  constexpr uint64_t kEach = kManyRecords / 20;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> record(64);
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t mine[] = {static_cast<uint64_t>(t), i};
        const uint32_t id = 1;
        std::memcpy(record.data() + 4, &id, sizeof(id));
        std::memcpy(record.data() + 16, mine, sizeof(mine));
        for (;;) {
          {
            std::lock_guard lock(mutex);
            if (out.TryAppend(record)) break;
          }
          ASSERT_TRUE(out.WaitForSpace(record.size(), kNoDeadline, {}).ok());
        }
      }
    });
  }
  uint64_t next[kThreads] = {};
  RecordBuffer buffer;
  for (uint64_t taken = 0; taken < kThreads * kEach;) {
    const auto record = in.CopyOut(&buffer);
    if (record.empty()) {
      ASSERT_TRUE(in.Wait(kNoDeadline, {}).ok());
      continue;
    }
    uint64_t whose[2];
    std::memcpy(whose, record.data() + 16, sizeof(whose));
    ASSERT_LT(whose[0], uint64_t{kThreads});
    ASSERT_EQ(whose[1], next[whose[0]]++);
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Ring, ALinkCarriesItByteByByte) {
  RingInMemory near_ring(4096), far_ring(4096);
  RingProducer out(near_ring.memory), far_out(far_ring.memory);
  RingConsumer near_in(near_ring.memory), in(far_ring.memory);
  constexpr uint64_t kCount = 20'000;
  std::thread producer([&] { EXPECT_TRUE(ProduceTestRecords(out, kCount, {}).ok()); });
  std::atomic<bool> done{false};
  std::thread link([&] {
    std::vector<std::byte> bytes;
    uint64_t sent = 0;
    while (!done) {
      const uint64_t published = near_in.Published();
      if (published != sent) {
        bytes.resize(published - sent);
        near_in.ReadAt(sent, bytes);
        far_out.WriteAt(sent, bytes);
        far_out.PublishTo(sent = published);
      }
      const Result<uint64_t> released = far_out.Released();
      ASSERT_TRUE(released.ok());
      if (released.value() != near_in.position()) near_in.ReleaseTo(released.value());
      std::this_thread::yield();
    }
  });
  const Status status = ConsumeTestRecords(in, kCount, out.record_bytes_max(), {});
  producer.join();
  done = true;
  link.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace tessera
