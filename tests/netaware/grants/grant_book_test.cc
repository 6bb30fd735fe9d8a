#include "netaware/grants/grant_book.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/netaware/some_pool.h"

namespace tessera {
namespace {

using Kind = GrantAction::Kind;
using State = Grant::State;

GrantId IdOf(uint32_t number) {
  GrantId id{};
  for (size_t i = 0; i < 4; ++i) id[i] = std::byte(number >> (8 * i));
  return id;
}

class GrantBookTest : public ::testing::Test {
 protected:
  void Join(const std::string& id, uint32_t gpus) { ASSERT_TRUE(pool.Join(SomeServer(id, gpus), 0).ok()); }
  GrantAsk AskOf(uint32_t number, const Wish& wish, int64_t wait_ms = -1) {
    return {.id = IdOf(number), .holder = "name:alice", .wish = wish, .wait_ms = wait_ms};
  }
  void Ask(uint32_t number, const Wish& wish, int64_t wait_ms = -1) {
    const Status status = book.Ask(AskOf(number, wish, wait_ms), now_ms);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // The pending actions of all grants, for example "hold one".
  std::vector<std::string> Turn() {
    for (const auto& [id, server] : pool.servers()) pool.Heard(id, now_ms * 1'000'000);
    std::vector<std::string> words;
    for (const GrantAction& action : book.Turn(now_ms)) {
      constexpr const char* kWords[] = {"hold", "cancel", "confirm", "free", "store", "forget", "tell"};
      words.push_back(kWords[static_cast<size_t>(action.kind)] + (action.server.empty() ? "" : " " + action.server));
    }
    return words;
  }
  State StateOf(uint32_t number) { return book.Find(IdOf(number))->state; }
  std::string ReasonOf(uint32_t number) { return book.Find(IdOf(number))->reason; }
  // One whose servers and store do what they are asked.
  void Grant(uint32_t number, const Wish& wish) {
    Ask(number, wish);
    Turn();
    for (const ChosenPart& part : book.Find(IdOf(number))->parts) book.Held(IdOf(number), part.server);
    book.Stored(IdOf(number), now_ms);
    Turn();
    ASSERT_EQ(StateOf(number), State::kGranted);
  }
  bool PoolIsEmpty() {
    for (const auto& [id, server] : pool.servers()) {
      for (const Inventory::Gpu& gpu : server.gpus) {
        if (gpu.granted != GpuAmount{}) return false;
      }
    }
    return true;
  }

  using Words = std::vector<std::string>;
  Inventory pool;
  GrantBook book{pool};
  int64_t now_ms = 1'000'000;
};

TEST_F(GrantBookTest, AJobHearsOfAGrantWhenServersAndStoreHaveIt) {
  Join("one", 2), Join("two", 1);
  Ask(1, {.gpus = 3, .share = 500'000});
  EXPECT_EQ(Turn(), (Words{"hold one", "hold two"}));
  EXPECT_EQ(Turn(), Words{});
  book.Held(IdOf(1), "two");
  EXPECT_EQ(Turn(), Words{});
  book.Held(IdOf(1), "one");
  EXPECT_EQ(Turn(), Words{"store"});
  book.Stored(IdOf(1), now_ms);
  EXPECT_EQ(Turn(), (Words{"confirm one", "confirm two", "tell"}));
  EXPECT_EQ(StateOf(1), State::kGranted);
  EXPECT_EQ(pool.servers().at("one").gpus[1].granted, (GpuAmount{500'000, 40 * kGiB}));
  EXPECT_TRUE(book.Release(IdOf(1)).ok());
  EXPECT_EQ(Turn(), (Words{"free one", "free two", "forget", "tell"}));
  EXPECT_EQ(StateOf(1), State::kReleased);
  Turn();
  EXPECT_EQ(book.Find(IdOf(1)), nullptr);
  EXPECT_TRUE(PoolIsEmpty());
  EXPECT_EQ(book.Release(IdOf(1)).code(), StatusCode::kNotFound);
}

TEST_F(GrantBookTest, AServerThatRefusesOrIsSilentIsAvoided) {
  Join("one", 1), Join("two", 1), Join("six", 1);
  Ask(1, {.gpus = 2});
  EXPECT_EQ(Turn(), (Words{"hold one", "hold six"}));
  book.Held(IdOf(1), "one");
  book.Refused(IdOf(1), "six", now_ms);
  EXPECT_EQ(Turn(), (Words{"cancel one", "cancel six", "tell", "hold one", "hold two"}));
  book.Held(IdOf(1), "one");
  now_ms += GrantBook::kAnswerMs - 1;
  EXPECT_EQ(Turn(), Words{});
  now_ms += 1;
  EXPECT_EQ(Turn(), (Words{"cancel one", "cancel two", "tell", "tell"}));
  EXPECT_EQ(ReasonOf(1), "2 GPUs wanted, 1 of the pool's 3 fit; 2 of a server that has refused it lately");
  EXPECT_TRUE(PoolIsEmpty());
  now_ms += GrantBook::kAvoidedMs;
  EXPECT_EQ(Turn(), (Words{"hold one", "hold six"}));
  // The part that two would have held, had it answered in time.
  book.Held(IdOf(1), "two");
  EXPECT_EQ(Turn(), Words{"cancel two"});
}

TEST_F(GrantBookTest, WhatCannotBeStoredIsGivenBack) {
  Join("one", 1);
  Ask(1, {}), Turn();
  book.Held(IdOf(1), "one");
  EXPECT_EQ(Turn(), Words{"store"});
  book.NotStored(IdOf(1), now_ms + 500);
  // The job gets that answer, and is placed again from then on.
  EXPECT_EQ(Turn(), (Words{"cancel one", "forget", "tell"}));
  EXPECT_EQ(ReasonOf(1), "the placer could not store the grant: it tries again");
  EXPECT_TRUE(PoolIsEmpty());
  EXPECT_EQ(book.NextMs(), now_ms + 500);
  now_ms += 500;
  EXPECT_EQ(Turn(), Words{"hold one"});
  book.NotStored(IdOf(1), now_ms);  // late: it is of the attempt before
  EXPECT_EQ(StateOf(1), State::kHolding);
}

TEST_F(GrantBookTest, AWaitEndsInItsTimeThoughTheStoreIsFull) {
  Join("one", 1);
  Ask(1, {}, 2'500), Turn();
  const int64_t begun_ms = now_ms;
  while (StateOf(1) != State::kLate && now_ms < begun_ms + 60'000) {
    if (StateOf(1) == State::kHolding) book.Held(IdOf(1), "one"), Turn();
    if (StateOf(1) == State::kHeld) book.NotStored(IdOf(1), now_ms + 1'000), Turn();
    if (StateOf(1) == State::kLate) break;
    now_ms = std::max(now_ms + 1, book.NextMs());
    Turn();
  }
  EXPECT_EQ(now_ms - begun_ms, 2'500);
  EXPECT_EQ(ReasonOf(1), "the placer could not store the grant");
  // A job that does not wait gets its answer at once.
  Ask(2, {}, 0), Turn();
  book.Held(IdOf(2), "one"), Turn();
  book.NotStored(IdOf(2), now_ms + 1'000), Turn();
  EXPECT_EQ(StateOf(2), State::kLate);
}

TEST_F(GrantBookTest, AWaitEndsThoughTheStoreDoesNotAnswerAndServersRefuse) {
  Join("one", 1);
  Ask(1, {}, 2'000), Turn();
  book.Held(IdOf(1), "one"), Turn();
  const int64_t until_ms = now_ms + GrantBook::kAnswerMs + GrantBook::kStoreMs;
  EXPECT_EQ(book.NextMs(), until_ms);
  now_ms = until_ms - 1, Turn();
  EXPECT_EQ(StateOf(1), State::kHeld);
  now_ms = until_ms;
  EXPECT_EQ(Turn(), (Words{"cancel one", "forget", "tell"}));
  EXPECT_EQ(ReasonOf(1), "the placer's store did not answer in time");
  EXPECT_TRUE(PoolIsEmpty());
  // Each refuses for a while, and is asked again.
  for (const char* server : {"two", "three", "four", "five"}) Join(server, 1);
  Ask(2, {}, 1'000), Turn();
  const int64_t begun_ms = now_ms;
  while (StateOf(2) == State::kHolding) now_ms += GrantBook::kAnswerMs, Turn();
  EXPECT_EQ(StateOf(2), State::kLate);
  EXPECT_LE(now_ms - begun_ms, 1'000 + GrantBook::kLateMs + GrantBook::kAnswerMs);
}

TEST_F(GrantBookTest, AJobWaitsAndIsToldWhy) {
  Join("one", 1);
  Grant(1, {.share = 700'000, .memory_bytes = kGiB});
  Ask(2, {.share = 500'000, .memory_bytes = kGiB});
  Ask(3, {.share = 300'000, .memory_bytes = kGiB});
  EXPECT_EQ(Turn(), (Words{"tell", "hold one"}));  // the third passes the second
  EXPECT_EQ(ReasonOf(2), "1 GPU wanted, 0 of the pool's 1 fit; 1 with less than 0.5 of the time left: the most is 0.3");
  EXPECT_EQ(book.NextMs(), now_ms + GrantBook::kAnswerMs);
  now_ms += 10;
  ASSERT_TRUE(book.Release(IdOf(1)).ok());
  EXPECT_EQ(Turn(), (Words{"free one", "forget", "tell", "hold one"}));
  EXPECT_EQ(StateOf(2), State::kHolding);
}

TEST_F(GrantBookTest, WhatNeverFitsOrComesTooLateIsRefused) {
  Join("one", 1);
  Grant(1, {});
  Ask(2, {.gpus = 2});
  Ask(3, {}, 0);
  Ask(4, {}, 1'500);
  EXPECT_EQ(Turn(), (Words{"tell", "tell", "tell"}));
  EXPECT_EQ(StateOf(2), State::kRefused);
  EXPECT_EQ(ReasonOf(2), "2 GPUs wanted, 1 of the pool's 1 fit");
  EXPECT_EQ(StateOf(3), State::kLate);
  EXPECT_EQ(ReasonOf(3), "1 GPU wanted, 0 of the pool's 1 fit; 1 with less than 1 of the time left: the most is 0");
  EXPECT_EQ(StateOf(4), State::kWaiting);
  now_ms += 1'000;
  Turn();
  EXPECT_EQ(book.NextMs(), now_ms + 500);
  now_ms += 500;
  EXPECT_EQ(Turn(), Words{"tell"});
  EXPECT_EQ(StateOf(4), State::kLate);
}

TEST_F(GrantBookTest, WhatNoServerHasWaitsUntilAllAreThere) {
  Ask(1, {}), Ask(2, {.gpus = 3}), Ask(3, {}, 0);
  EXPECT_EQ(Turn(), (Words{"tell", "tell", "tell"}));
  EXPECT_EQ(ReasonOf(1), "no server has joined the pool");
  EXPECT_EQ(StateOf(2), State::kWaiting);
  EXPECT_EQ(StateOf(3), State::kLate);
  Join("one", 1), Join("two", 1);
  EXPECT_EQ(Turn(), (Words{"hold one", "tell"}));
  EXPECT_EQ(StateOf(2), State::kRefused);
  pool.Leave("two");
  Ask(4, {.gpus = 3});
  EXPECT_EQ(Turn(), Words{"tell"});
  EXPECT_EQ(ReasonOf(4), "3 GPUs wanted, 2 of the pool's 2 fit; server 'two' has left");
  EXPECT_EQ(StateOf(4), State::kWaiting);
  Join("two", 2);  // it has one more now
  book.Held(IdOf(1), "one"), book.Stored(IdOf(1), now_ms), Turn();
  ASSERT_TRUE(book.Release(IdOf(1)).ok());
  EXPECT_EQ(Turn(), (Words{"free one", "forget", "tell", "hold two", "hold one"}));
}

TEST_F(GrantBookTest, ItCanEndInEachState) {
  Join("one", 1);
  Ask(1, {}), Turn();
  EXPECT_TRUE(book.Revoke(IdOf(1), "the machine is sold").ok());
  EXPECT_EQ(Turn(), (Words{"cancel one", "tell"}));
  EXPECT_EQ(ReasonOf(1), "the machine is sold");
  book.Held(IdOf(1), "one");
  EXPECT_EQ(Turn(), Words{"cancel one"});

  Ask(2, {}), Turn();
  book.Held(IdOf(2), "one");
  EXPECT_EQ(Turn(), Words{"store"});
  EXPECT_TRUE(book.Release(IdOf(2)).ok());
  EXPECT_EQ(Turn(), (Words{"cancel one", "forget", "tell"}));
  book.Stored(IdOf(2), now_ms);
  EXPECT_EQ(Turn(), Words{});

  Grant(3, {});
  Ask(4, {}), Turn();
  EXPECT_TRUE(book.Release(IdOf(4)).ok());
  EXPECT_EQ(Turn(), Words{"tell"});
  EXPECT_EQ(book.Revoke(IdOf(4), "").code(), StatusCode::kNotFound);
}

TEST_F(GrantBookTest, AJobOfWhichNothingIsHeardHasEnded) {
  Join("one", 1);
  Grant(1, {});
  Ask(2, {});
  Turn();
  now_ms += GrantBook::kLeaseMs - 1;
  book.Beat(IdOf(1), now_ms);
  Turn();
  EXPECT_EQ(StateOf(2), State::kWaiting);
  now_ms += 1;
  EXPECT_EQ(Turn(), Words{"tell"});
  EXPECT_EQ(ReasonOf(2), "nothing was heard of its job for 60 s");
  EXPECT_EQ(StateOf(1), State::kGranted);
  EXPECT_EQ(book.NextMs(), now_ms - 1 + GrantBook::kLeaseMs);
  now_ms = book.NextMs();
  EXPECT_EQ(Turn(), (Words{"free one", "forget", "tell"}));
}

TEST_F(GrantBookTest, ANumberIsOfOneRequest) {
  Join("one", 1);
  Ask(1, {.share = 500'000});
  Ask(1, {.share = 500'000});
  EXPECT_EQ(Turn(), Words{"hold one"});
  Ask(1, {.share = 500'000});
  EXPECT_EQ(Turn(), Words{});
  EXPECT_EQ(book.Ask(AskOf(1, {}), now_ms).message(), "another request had the number 01000000000000000000000000000000");
  GrantAsk wrong = AskOf(2, {.gpus = 0});
  EXPECT_EQ(book.Ask(wrong, now_ms).message(), "a job asks for 1 GPU at least");
  wrong.wish = {.share = kWholeShare + 1};
  EXPECT_EQ(book.Ask(wrong, now_ms).message(), "a share is 1000000 ppm at most, and not 1000001");
  wrong.wish = {.share = 500'000};
  wrong.limit = 400'000;
  EXPECT_EQ(book.Ask(wrong, now_ms).message(),
            "a limit is above 0, the share (500000 ppm) at least, and 1000000 ppm at most, and not 400000");
  EXPECT_EQ(book.size(), 1u);
}

TEST_F(GrantBookTest, WhatTheStoreHadIsGranted) {
  Join("one", 1);
  tessera::Grant stored{.ask = AskOf(1, {.share = 600'000}), .parts = {{"one", {{0, 10 * kGiB}}}}};
  ASSERT_TRUE(book.Restore(stored, now_ms).ok());
  EXPECT_EQ(StateOf(1), State::kGranted);
  EXPECT_EQ(pool.servers().at("one").gpus[0].granted, (GpuAmount{600'000, 11 * kGiB}));
  stored.ask.id = IdOf(2);
  EXPECT_EQ(book.Restore(stored, now_ms).code(), StatusCode::kResourceExhausted);
  stored.parts[0].server = "gone";
  EXPECT_EQ(book.Restore(stored, now_ms).code(), StatusCode::kNotFound);
  EXPECT_EQ(book.size(), 1u);
  EXPECT_TRUE(book.Release(IdOf(1)).ok());
  EXPECT_TRUE(PoolIsEmpty());
}

// The cost of a job does not grow with the waiting jobs of another, in a pool where a look at all GPUs takes long.
TEST_F(GrantBookTest, AJobCostsNoMoreThoughAnotherHasManyThatWait) {
  constexpr uint32_t kGpus = 1'024, kMany = 500;
  for (uint32_t i = 0; i < kGpus / 8; ++i) Join(fmt::format("s{:03}", i), 8);
  Grant(1, {.gpus = 1, .share = 500'000});
  uint64_t before = book.looks();
  ASSERT_TRUE(book.Release(IdOf(1)).ok());
  Turn();
  const auto cost_of_one = [&](uint32_t number, const std::string& holder) {
    before = book.looks();
    GrantAsk ask = AskOf(number, {.share = 500'000});
    ask.holder = holder;
    EXPECT_TRUE(book.Ask(ask, now_ms).ok());
    Turn();
    EXPECT_EQ(StateOf(number), State::kHolding);  // in the first turn, in spite of all that wait
    EXPECT_TRUE(book.Release(IdOf(number)).ok());
    Turn();
    return book.looks() - before;
  };
  EXPECT_EQ(cost_of_one(2, "name:bob"), kGpus);
  // Each has a wish of its own, and none fits: models that are not there now, of a server that is away.
  Join("away", 1);
  pool.Leave("away");
  for (uint32_t i = 0; i < kMany; ++i) {
    now_ms += GrantBook::kSliceMs;
    Ask(1'000 + i, {.share = 1 + i, .models = {"another"}});
    Turn();
  }
  for (int i = 0; i < 2 * static_cast<int>(kMany); ++i) now_ms += GrantBook::kSliceMs, Turn();
  EXPECT_EQ(book.waiting(), kMany);
  // Its own look, and a slice for the other's that what it gave back may have room for: not one for each.
  const uint64_t slice = 16'384 + 2 * (kGpus + 1);
  for (uint32_t number = 3; number < 10; ++number) {
    EXPECT_LE(cost_of_one(number, "name:bob"), kGpus + slice);
  }
  // In time all are looked at, and no more than a slice each time.
  now_ms += GrantBook::kLookMs;
  for (int i = 0; i < 100; ++i) {
    now_ms += GrantBook::kSliceMs;
    before = book.looks();
    Turn();
    EXPECT_LE(book.looks() - before, slice);
  }
}

TEST_F(GrantBookTest, EqualWishesThatDoNotFitAreLookedAtOnce) {
  Join("one", 8);
  Grant(1, {.gpus = 8});
  const uint64_t before = book.looks();
  for (uint32_t i = 2; i < 402; ++i) Ask(i, {.share = 500'000});
  EXPECT_EQ(Turn().size(), 400U);  // each gets its answer
  EXPECT_EQ(book.looks() - before, 2 * 8U);
  // Free parts go to the first jobs that asked.
  ASSERT_TRUE(book.Release(IdOf(1)).ok());
  Turn();
  for (uint32_t i = 2; i < 402; ++i) EXPECT_EQ(StateOf(i), i < 18 ? State::kHolding : State::kWaiting) << i;
}

TEST_F(GrantBookTest, WhatServersSayAgainIsNoReasonToLookAgain) {
  Join("one", 1);
  Grant(1, {});
  Ask(2, {});
  Turn();
  const uint64_t before = book.looks();
  for (int i = 0; i < 50; ++i) {
    now_ms += 1;
    ASSERT_TRUE(pool.SetOthers("one", {{.share = 1}}).ok());
    Turn();
  }
  EXPECT_EQ(book.looks(), before);
  ASSERT_TRUE(pool.SetOthers("one", {{.share = 0}}).ok());
  Turn();
  EXPECT_GT(book.looks(), before);
}

TEST_F(GrantBookTest, WhoHasManyThatWereNotTriedShouldAskForNoMoreNow) {
  for (uint32_t i = 0; i < 128; ++i) Join(fmt::format("s{:03}", i), 64);
  for (uint32_t i = 1; i <= GrantBook::kUntriedMax; ++i) Ask(i, {.share = 500'000});
  EXPECT_FALSE(book.TakesAsks("name:alice"));
  EXPECT_TRUE(book.TakesAsks("name:bob"));
  while (!book.TakesAsks("name:alice")) now_ms += GrantBook::kSliceMs, Turn();
  int slices = 0;
  while (StateOf(GrantBook::kUntriedMax) == State::kWaiting && slices < 1'000)
    ++slices, now_ms = std::max(now_ms, book.NextMs()), Turn();
  EXPECT_EQ(StateOf(GrantBook::kUntriedMax), State::kHolding);
}

// Servers that refuse, are silent, or answer late; jobs that come, go and fall silent. A server never holds more than it has, a
// job gets no grant that is not held everywhere, and at the end nothing is held.
TEST_F(GrantBookTest, WhateverHappensServersHoldWhatTheyHave) {
  std::mt19937 random(11);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (uint32_t i = 0; i < 5; ++i) Join(fmt::format("s{}", i), 1 + i % 3);
  std::map<std::string, std::map<GrantId, ChosenPart>> holds;  // by server, as the servers know it
  std::vector<std::pair<GrantId, std::string>> late;
  std::vector<GrantId> live;  // granted
  uint32_t asked = 0, granted = 0;
  const auto carry_out = [&](const GrantAction& action) {
    if (action.kind == Kind::kHold) {
      const uint32_t manner = below(10);
      if (manner == 0) return book.Refused(action.grant, action.server, now_ms);
      if (manner == 1) return;
      for (const ChosenPart& part : book.Find(action.grant)->parts) {
        if (part.server == action.server) holds[action.server][action.grant] = part;
      }
      if (manner == 2) return late.emplace_back(action.grant, action.server), void();
      book.Held(action.grant, action.server);
    } else if (action.kind == Kind::kCancel || action.kind == Kind::kFree) {
      holds[action.server].erase(action.grant);
    } else if (action.kind == Kind::kStore) {
      book.Stored(action.grant, now_ms);
    } else if (action.kind == Kind::kTell && book.Find(action.grant)->state == State::kGranted) {
      ++granted;
      live.push_back(action.grant);
      for (const ChosenPart& part : book.Find(action.grant)->parts) EXPECT_TRUE(holds[part.server].contains(action.grant));
    }
  };
  const auto step = [&] {
    for (const auto& [id, server] : pool.servers()) pool.Heard(id, now_ms * 1'000'000);
    for (const GrantAction& action : book.Turn(now_ms)) carry_out(action);
    for (const auto& [server, of_server] : holds) {
      std::map<uint32_t, uint64_t> shares;
      for (const auto& [id, part] : of_server) {
        if (const tessera::Grant* grant = book.Find(id)) {
          for (const ChosenGpu& gpu : part.gpus) shares[gpu.gpu] += grant->ask.wish.share;
        }
      }
      for (const auto& [gpu, share] : shares) EXPECT_LE(share, kWholeShare);
    }
  };
  for (int round = 0; round < 5'000; ++round) {
    now_ms += below(400);
    if (below(3) == 0)
      Ask(++asked, {.gpus = 1 + below(4), .share = 100'000 * (1 + below(10)), .memory_bytes = kGiB * (1 + below(20))},
          below(20'000));
    if (asked > 0 && below(8) == 0) (void)book.Release(IdOf(1 + below(asked)));
    if (!live.empty() && below(3) == 0) {
      std::swap(live[below(static_cast<uint32_t>(live.size()))], live.back());
      (void)book.Release(live.back());
      live.pop_back();
    }
    for (uint32_t i = 1; i <= asked; ++i) {
      if (i % 7 != 0) book.Beat(IdOf(i), now_ms);  // each seventh falls silent
    }
    if (!late.empty() && below(2) == 0) {
      const auto [grant, server] = late.back();
      late.pop_back();
      if (holds[server].contains(grant)) book.Held(grant, server);
    }
    step();
  }
  EXPECT_GT(granted, 300u);
  for (uint32_t i = 1; i <= asked; ++i) (void)book.Release(IdOf(i));
  step(), step(), step();
  EXPECT_EQ(book.size(), 0u);
  EXPECT_EQ(book.NextMs(), INT64_MAX);
  EXPECT_TRUE(PoolIsEmpty());
  for (const auto& [server, of_server] : holds) EXPECT_TRUE(of_server.empty()) << server;
}

}  // namespace
}  // namespace tessera
