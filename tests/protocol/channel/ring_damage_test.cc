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

// Both ends at work while somebody scribbles over everything they share. What must hold: no crash, nothing read or written
// outside of the ring (the sanitizers look), every record within the bounds, and the damage is noticed.
#if !defined(__SANITIZE_THREAD__)  // a data race by design
TEST(RingFuzz, ScribblingIsNoticedAndHarmless) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    RingInMemory ring(4096);
    RingProducer out(ring.memory);
    RingConsumer in(ring.memory);
    std::atomic<bool> done{false};
    std::thread scribbler([&] {
      std::mt19937_64 random(static_cast<uint64_t>(round));
      std::byte* all = reinterpret_cast<std::byte*>(ring.memory.header);
      while (!done) {
        const uint64_t value = random() % 4 == 0 ? random() : random() % 8192;
        switch (random() % 4) {
          case 0: ring.memory.header->head.store(value, std::memory_order_relaxed); break;
          case 1: ring.memory.header->tail.store(value, std::memory_order_relaxed); break;
          default: {
            const size_t at = kRingHeaderBytes + random() % (4096 / 8) * 8;
            __atomic_store_n(reinterpret_cast<uint64_t*>(all + at), value, __ATOMIC_RELAXED);
          }
        }
      }
    });
    const uint64_t end_ns = MonotonicNs() + 2'000'000'000;
    std::vector<std::byte> record(256);
    RecordBuffer buffer;
    while (MonotonicNs() < end_ns && !in.broken()) {
      FillTestRecord(1, record);
      out.TryAppend(std::span(record).first(32 + MonotonicNs() % 200));
      const auto copy = in.CopyOut(&buffer);
      if (copy.empty()) continue;
      uint32_t size = 0;
      std::memcpy(&size, copy.data(), sizeof(size));
      ASSERT_EQ(size, copy.size());
      ASSERT_GE(copy.size(), kRingRecordBytesMin);
      ASSERT_LE(copy.size(), 1024u);
    }
    done = true;
    scribbler.join();
    ASSERT_TRUE(in.broken());
    EXPECT_EQ(in.Wait(kNoDeadline, {}).code(), StatusCode::kProtocolViolation);
  }
}
#endif

}  // namespace
}  // namespace tessera
