#include "protocol/memory/change_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kBase = 0x10000;

// Two sides of one range, and the messages that are on their way between them.
class ChangeTrackerTest : public testing::Test {
 protected:
  struct Side {
    explicit Side(const Range& range, std::vector<std::byte> memory) : memory(std::move(memory)) {
      EXPECT_TRUE(tracker.Add(range, this->memory.data(), 5));
    }
    std::vector<std::byte> memory;
    ChangeTracker tracker;
  };
  using Messages = std::vector<std::vector<std::byte>>;

  static Messages Changes(Side& side, size_t bytes_max = 1024) {
    Messages messages;
    EXPECT_TRUE(side.tracker.SendChanges(bytes_max, [&](std::span<const std::byte> message) {
      EXPECT_LE(message.size(), bytes_max);
      EXPECT_EQ(message.size() % 8, 0u);
      messages.emplace_back(message.begin(), message.end());
      return true;
    }));
    return messages;
  }
  static Messages LoneChange(Side& side) {
    Messages messages;
    EXPECT_TRUE(side.tracker.SendLoneChange([&](std::span<const std::byte> message) {
      messages.emplace_back(message.begin(), message.end());
      return true;
    }));
    return messages;
  }
  static uint64_t* Word(Side& side, size_t at) { return reinterpret_cast<uint64_t*>(&side.memory[at]); }
  static void Deliver(const Messages& messages, Side& side) {
    for (const auto& message : messages) EXPECT_TRUE(side.tracker.Apply(message));
  }

  // Begins and ends inside a block, and is no multiple of anything.
  const Range range_{kBase + 24, 3 * 4096 + 77};
  Side a_{range_, std::vector<std::byte>(range_.bytes)};
  Side b_{range_, std::vector<std::byte>(range_.bytes)};
};

TEST_F(ChangeTrackerTest, WhatIsThereInTheBeginningIsAChange) {
  ChangeTracker tracker;
  std::vector<std::byte> memory(64);
  memory[9] = std::byte{1};
  ASSERT_TRUE(tracker.Add(Range{kBase, 64}, memory.data(), 5));
  size_t bytes = 0;
  EXPECT_TRUE(tracker.SendChanges(1024, [&](std::span<const std::byte> changes) { return (bytes += changes.size()) != 0; }));
  EXPECT_EQ(bytes, 24u);  // address, mask, one byte and its padding
  EXPECT_TRUE(tracker.SendChanges(1024, [&](std::span<const std::byte>) { return ADD_FAILURE(), true; }));
}

TEST_F(ChangeTrackerTest, EachSideGetsWhatTheOtherChangedAndNothingTravelsBack) {
  a_.memory[0] = std::byte{1};
  a_.memory[range_.bytes - 1] = std::byte{2};
  b_.memory[1] = std::byte{3};  // the neighbour
  const Messages from_a = Changes(a_);
  const Messages from_b = Changes(b_);  // they cross
  Deliver(from_a, b_);
  Deliver(from_b, a_);
  EXPECT_EQ(a_.memory, b_.memory);
  EXPECT_EQ(a_.memory[1], std::byte{3});
  EXPECT_EQ(b_.memory[range_.bytes - 1], std::byte{2});
  EXPECT_TRUE(Changes(a_).empty());
  EXPECT_TRUE(Changes(b_).empty());
}

TEST_F(ChangeTrackerTest, WhatArrivedLateDoesNotUndoWhatCameAfter) {
  a_.memory[100] = std::byte{1};
  Deliver(Changes(a_), b_);
  b_.memory[100] = std::byte{2};
  Changes(a_);  // looked at again before it hears of that
  Deliver(Changes(b_), a_);
  EXPECT_EQ(a_.memory[100], std::byte{2});
  EXPECT_TRUE(Changes(a_).empty());
  a_.memory[100] = std::byte{0};  // an old value that comes back counts
  Deliver(Changes(a_), b_);
  EXPECT_EQ(b_.memory[100], std::byte{0});
}

TEST_F(ChangeTrackerTest, RandomTurnsInSmallMessagesLoseNothing) {
  std::mt19937 random(7);
  std::vector<std::byte> expected(range_.bytes);
  for (int turn = 0; turn < 200; ++turn) {
    Side& writer = turn % 2 == 0 ? a_ : b_;
    const size_t from = random() % range_.bytes;
    const size_t to = turn % 10 == 0 ? range_.bytes : std::min<size_t>(range_.bytes, from + random() % 200);
    for (size_t at = from; at < to; ++at) expected[at] = writer.memory[at] = std::byte(random() % 3);
    Deliver(Changes(writer, ChangeTracker::kBlockBytesMax + random() % 300), turn % 2 == 0 ? b_ : a_);
    ASSERT_EQ(a_.memory, expected) << turn;
    ASSERT_EQ(b_.memory, expected) << turn;
  }
}

TEST_F(ChangeTrackerTest, TouchesNothingThatIsNotTracked) {
  a_.memory.assign(range_.bytes, std::byte{1});
  const Messages changes = Changes(a_);
  ChangeTracker other;
  std::vector<std::byte> memory(128);
  ASSERT_TRUE(other.Add(Range{kBase + 64, 100}, memory.data(), 5));
  for (const auto& message : changes) EXPECT_TRUE(other.Apply(message));
  EXPECT_EQ(memory[0], std::byte{1});
  EXPECT_EQ(memory[99], std::byte{1});
  EXPECT_EQ(memory[100], std::byte{0});
  b_.tracker.Remove(range_.base);
  EXPECT_FALSE(b_.tracker.any());
  Deliver(changes, b_);
  EXPECT_EQ(b_.memory[0], std::byte{0});
}

TEST_F(ChangeTrackerTest, WhatWasToldOfAnEarlierRangeDoesNotCount) {
  a_.memory[100] = std::byte{1};
  const Messages late = Changes(a_);
  b_.tracker.Remove(range_.base);
  ASSERT_TRUE(b_.tracker.Add(range_, b_.memory.data(), 6));
  Deliver(late, b_);
  EXPECT_EQ(b_.memory[100], std::byte{0});
  a_.tracker.Remove(range_.base);
  ASSERT_TRUE(a_.tracker.Add(range_, a_.memory.data(), 6 + 64));
  Deliver(Changes(a_), b_);
  EXPECT_EQ(b_.memory[100], std::byte{1});
}

TEST_F(ChangeTrackerTest, RangesDoNotOverlap) {
  std::vector<std::byte> memory(256);
  ChangeTracker tracker;
  EXPECT_TRUE(tracker.Add(Range{kBase, 128}, memory.data(), 5));
  EXPECT_FALSE(tracker.Add(Range{kBase + 64, 128}, memory.data(), 5));
  EXPECT_FALSE(tracker.Add(Range{kBase - 64, 128}, memory.data(), 5));
  EXPECT_TRUE(tracker.Add(Range{kBase + 128, 128}, memory.data(), 5));
}

TEST_F(ChangeTrackerTest, MalformedMessagesAreRefused) {
  a_.memory[3] = std::byte{1};
  const Messages changes = Changes(a_);
  ASSERT_EQ(changes.size(), 1u);
  for (size_t bytes = 1; bytes < changes[0].size(); ++bytes) {
    EXPECT_FALSE(b_.tracker.Apply(std::span(changes[0]).first(bytes))) << bytes;
  }
  const auto with = [&](uint64_t address, uint64_t mask) {
    std::vector<std::byte> message(ChangeTracker::kBlockBytesMax);
    std::memcpy(message.data(), &address, sizeof(address));
    std::memcpy(message.data() + sizeof(address), &mask, sizeof(mask));
    return b_.tracker.Apply(message);
  };
  EXPECT_TRUE(with(kBase, ~uint64_t{0}));
  EXPECT_FALSE(with(kBase, 0));
  EXPECT_FALSE(with(~uint64_t{63}, ~uint64_t{0}));
}

TEST_F(ChangeTrackerTest, ALoneWordIsToldAndNoMore) {
  EXPECT_TRUE(LoneChange(a_).empty());
  *Word(a_, 800) = 0x0100'0000'00ff'0000;
  b_.memory[803] = std::byte{9};  // a neighbour in the word
  Deliver(LoneChange(a_), b_);
  EXPECT_EQ(*Word(b_, 800), 0x0100'0000'09ff'0000u);
  EXPECT_TRUE(Changes(a_).empty());
  a_.memory[800] = a_.memory[range_.bytes - 1] = std::byte{1};
  EXPECT_TRUE(LoneChange(a_).empty());
  a_.memory[range_.bytes - 1] = std::byte{0};
  EXPECT_EQ(LoneChange(a_).size(), 1u);
  a_.memory[0] = a_.memory[8] = std::byte{1};  // neighbours
  EXPECT_TRUE(LoneChange(a_).empty());
  Deliver(Changes(a_), b_);
  EXPECT_EQ(b_.memory[8], std::byte{1});
  a_.memory[range_.bytes - 1] = std::byte{7};  // the last word has five bytes
  Deliver(LoneChange(a_), b_);
  EXPECT_EQ(b_.memory[range_.bytes - 1], std::byte{7});
}

TEST_F(ChangeTrackerTest, ALoneWordNeverPrecedesWhatWasWrittenBeforeIt) {
  constexpr uint64_t kTurns = 1000;
  uint64_t* const data = Word(a_, 0);
  uint64_t* const flag = Word(a_, 8192);
  std::atomic<uint64_t> begun{0}, done{0};
  std::thread writer([&] {
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
      while (begun.load() != turn) std::this_thread::yield();
      __atomic_store_n(data, turn, __ATOMIC_RELEASE);
      if (turn % 2 == 0) std::this_thread::yield();
      __atomic_store_n(flag, turn, __ATOMIC_RELEASE);
      done = turn;
    }
  });
  for (uint64_t turn = 1; turn <= kTurns; ++turn) {
    begun = turn;
    for (bool last = false; !last;) {
      last = done.load() == turn;
      Deliver(LoneChange(a_), b_);
      EXPECT_GE(*Word(b_, 0), *Word(b_, 8192));
    }
    Deliver(Changes(a_), b_);
    EXPECT_EQ(*Word(b_, 8192), turn);
  }
  writer.join();
}

TEST_F(ChangeTrackerTest, AWordArrivesAtOnce) {
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      const uint64_t seen = __atomic_load_n(Word(b_, 64), __ATOMIC_RELAXED);
      ASSERT_TRUE(seen == 0 || ~seen == 0) << std::hex << seen;
    }
  });
  for (int turn = 1; turn <= 20000; ++turn) {
    *Word(a_, 64) = turn % 2 == 0 ? 0 : ~uint64_t{0};
    Deliver(turn % 3 == 0 ? LoneChange(a_) : Changes(a_), b_);
  }
  stop = true;
  reader.join();
}

TEST_F(ChangeTrackerTest, AWriterMayGoOnWhileItIsLookedAt) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (unsigned value = 0; !stop.load(); ++value) {
      for (size_t at = 0; at < range_.bytes; at += 2)
        std::atomic_ref(a_.memory[at]).store(std::byte(value), std::memory_order_relaxed);
    }
  });
  for (int turn = 0; turn < 50; ++turn) {
    // The other side's own bytes lie between.
    for (size_t at = 1; at < range_.bytes; at += 2) b_.memory[at] = std::byte(turn);
    Deliver(Changes(a_), b_);
    Deliver(Changes(b_), a_);
  }
  stop.store(true);
  writer.join();
  Deliver(Changes(a_), b_);
  EXPECT_EQ(a_.memory, b_.memory);
  EXPECT_EQ(a_.memory[1], std::byte{49});
}

}  // namespace
}  // namespace tessera
