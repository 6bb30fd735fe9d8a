// A peer that writes nonsense into the shared memory of a ring.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/protocol/channel/ring_fixture.h"

namespace tessera {
namespace {

// A ring with three records in it, of which the first words are about to be damaged.
class RingDamage : public testing::Test {
 protected:
  RingDamage() : ring_(4096), out_(ring_.memory), in_(ring_.memory) {
    for (uint64_t i = 0; i < 3; ++i) {
      std::vector<std::byte> record(64);
      FillTestRecord(i, record);
      EXPECT_TRUE(out_.TryAppend(record));
    }
  }
  void SetWord(size_t offset, uint32_t word) { std::memcpy(ring_.memory.data + offset, &word, sizeof(word)); }
  void ExpectBroken() {
    EXPECT_TRUE(in_.Peek().empty());
    EXPECT_TRUE(in_.broken());
    EXPECT_EQ(in_.Wait(kNoDeadline, {}).code(), StatusCode::kProtocolViolation);
    // It stays so when the damage is gone.
    SetWord(0, 64);
    EXPECT_TRUE(in_.Peek().empty());
  }

  RingInMemory ring_;
  RingProducer out_;
  RingConsumer in_;
};

TEST_F(RingDamage, RecordSizes) {
  for (uint32_t size : {0u, 8u, 24u, 33u, 65u, 200u, 1032u, 4096u, 0xfffffff8u}) {
    RingConsumer in(ring_.memory);
    SetWord(0, size);
    EXPECT_TRUE(in.Peek().empty()) << size;
    EXPECT_TRUE(in.broken()) << size;
    EXPECT_EQ(in.Wait(kNoDeadline, {}).code(), StatusCode::kProtocolViolation) << size;
  }
  ExpectBroken();
}

TEST_F(RingDamage, APadThatDoesNotEndAtTheEnd) {
  SetWord(4, kRingPadId);
  ExpectBroken();
}

TEST_F(RingDamage, HeadBeyondTheRing) {
  ring_.memory.header->head = 4096 + 8;
  ExpectBroken();
}

TEST_F(RingDamage, HeadBehindTheTail) {
  in_.Peek();
  in_.Release();
  RingConsumer fresh(ring_.memory);
  ring_.memory.header->head = 0;
  while (!in_.Peek().empty()) in_.Release();  // what had been seen before
  EXPECT_TRUE(in_.broken());
}

TEST_F(RingDamage, HeadInTheMiddle) {
  ring_.memory.header->head = 67;
  ExpectBroken();
}

TEST_F(RingDamage, TailThatNobodyReached) {
  ring_.memory.header->tail = 1 << 20;
  std::vector<std::byte> record(1024);
  int appended = 0;
  while (out_.TryAppend(record)) ++appended;
  EXPECT_LT(appended, 5);
  EXPECT_EQ(out_.WaitForSpace(1024, kNoDeadline, {}).code(), StatusCode::kProtocolViolation);
  EXPECT_FALSE(out_.TryAppend(record));
  EXPECT_FALSE(out_.Released().ok());
}

// One random word into something that both sides share.
void Scribble(const RingMemory& memory, std::mt19937_64& random) {
  const uint64_t value = random() % 4 == 0 ? random() : random() % 8192;
  switch (random() % 4) {
    case 0: memory.header->head.store(value, std::memory_order_relaxed); break;
    case 1: memory.header->tail.store(value, std::memory_order_relaxed); break;
    default:
      __atomic_store_n(reinterpret_cast<uint64_t*>(memory.data + random() % (memory.size_bytes / 8) * 8), value,
                       __ATOMIC_RELAXED);
  }
}

// One step of both ends. What must hold whatever the peer writes: no crash, nothing read or written outside of the ring (the
// sanitizers look), every record within the bounds.
void AppendAndTake(RingProducer& out, RingConsumer& in, size_t size) {
  std::vector<std::byte> record(size);
  FillTestRecord(1, record);
  out.TryAppend(record);
  RecordBuffer buffer;
  const auto copy = in.CopyOut(&buffer);
  if (copy.empty()) return;
  uint32_t size_bytes = 0;
  std::memcpy(&size_bytes, copy.data(), sizeof(size_bytes));
  ASSERT_EQ(size_bytes, copy.size());
  ASSERT_GE(copy.size(), kRingRecordBytesMin);
  ASSERT_LE(copy.size(), 1024u);
}

TEST(RingFuzz, ScribblingIsNoticedAndHarmless) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    RingInMemory ring(4096);
    RingProducer out(ring.memory);
    RingConsumer in(ring.memory);
    int steps = 0;
    for (; steps < 10'000 && !in.broken(); ++steps) {
      AppendAndTake(out, in, 32 + random() % 200);
      if (random() % 4 == 0) Scribble(ring.memory, random);
    }
    ASSERT_TRUE(in.broken()) << "round " << round;
    EXPECT_EQ(in.Wait(kNoDeadline, {}).code(), StatusCode::kProtocolViolation);
  }
}

#if !defined(__SANITIZE_THREAD__)  // a data race by design
TEST(RingFuzz, ScribblingAtTheSameTimeIsHarmless) {
  for (uint64_t round = 0; round < 20; ++round) {
    RingInMemory ring(4096);
    RingProducer out(ring.memory);
    RingConsumer in(ring.memory);
    std::atomic<bool> done{false};
    std::thread scribbler([&] {
      for (std::mt19937_64 random(round); !done;) Scribble(ring.memory, random);
    });
    const uint64_t end_ns = MonotonicNs() + 10'000'000;
    while (MonotonicNs() < end_ns && !in.broken()) AppendAndTake(out, in, 32 + MonotonicNs() % 200);
    done = true;
    scribbler.join();
  }
}
#endif

}  // namespace
}  // namespace tessera
