#include "server/worker/memory/memory_ledger.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "protocol/base/unique_fd.h"
#include "server/worker/memory/held_memory.h"
#include "tests/server/worker/one_gpu.h"
#include "tests/support/sizes.h"

namespace tessera {
namespace {

constexpr MemoryKind kKind = MemoryKind::kAllocations;

class MemoryLedgerTest : public testing::Test {
 protected:
  MemoryLedgerTest() {
    AddOneGpu(table_);
    gate_->row_count = 1;
    std::memset(gate_->rows[0].uuid, kOneGpuUuid, sizeof(gate_->rows[0].uuid));
  }
  MemoryLedger Make(StopPredicate stop = {}) {
    return MemoryLedger(table_, GatePages{gate_.get(), report_.get(), ring_.get()}, std::move(stop));
  }
  GatePage::Row& row() { return gate_->rows[0]; }
  ReportPage::Row& report() { return report_->rows[0]; }
  // Until `done`: each question is answered by `answer`, which gives budgets.
  std::thread Broker(std::atomic<bool>& done, const std::function<void()>& answer) {
    return std::thread([this, &done, answer] {
      while (!done.load()) {
        const uint64_t asks = report().memory_asks.load(std::memory_order_acquire);
        if (asks == row().memory_answer.load()) {
          std::this_thread::yield();
          continue;
        }
        answer();
        row().memory_answer.store(asks, std::memory_order_release);
        gate_->changes.fetch_add(1);
        FutexWakeAll(&gate_->changes);
      }
    });
  }

  DriverTable table_{};
  const std::unique_ptr<GatePage> gate_ = std::make_unique<GatePage>();
  const std::unique_ptr<ReportPage> report_ = std::make_unique<ReportPage>();
  const UniqueFd ring_{eventfd(0, EFD_NONBLOCK)};
};

TEST_F(MemoryLedgerTest, WithoutPagesNothingIsLimited) {
  MemoryLedger ledger(table_, {}, {});
  EXPECT_TRUE(ledger.Take(0, kKind, UINT64_MAX / 2));
  EXPECT_FALSE(ledger.limited(0));
  EXPECT_EQ(ledger.LeftBytes(0), UINT64_MAX);
  EXPECT_EQ(ledger.HeldBytes(0), 0u);
}

TEST_F(MemoryLedgerTest, CountsWithoutALimit) {
  MemoryLedger ledger = Make();
  EXPECT_TRUE(ledger.Take(0, kKind, 5 * kMiB));
  EXPECT_TRUE(ledger.Take(0, kKind, 3 * kMiB));
  ledger.Give(0, kKind, 5 * kMiB);
  EXPECT_EQ(report().memory_held.load(), 3 * kMiB);
  EXPECT_EQ(report().memory_asks.load(), 0u);
  EXPECT_TRUE(ledger.Take(1, kKind, kMiB)) << "a device that no page knows";
}

TEST_F(MemoryLedgerTest, ContextsAndCodeAreToldAndNotHeld) {
  MemoryLedger ledger = Make();
  ledger.CountContext(0);
  ledger.CountContext(0);
  ledger.CountCode(0, 5 * kMiB);
  ledger.CountCode(0, 2 * kMiB);
  ledger.CountCode(1, kMiB);  // a device that no page knows
  EXPECT_EQ(report().made_contexts.load(), 2u);
  EXPECT_EQ(report().loaded_bytes.load(), 7 * kMiB);
  EXPECT_EQ(report().memory_held.load(), 0u);
}

TEST_F(MemoryLedgerTest, ContextsBesideAnotherAreHeldAsLongAsTheyLive) {
  row().memory_limit = row().memory_budget = 25 * kMiB;
  gate_->further_context_bytes[0] = 10 * kMiB;
  MemoryLedger ledger = Make();
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_EQ(ledger.HeldBytes(0), 0u);
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_FALSE(ledger.TakeContext(0));
  EXPECT_EQ(ledger.HeldBytes(0, MemoryKind::kContexts), 20 * kMiB);
  EXPECT_FALSE(ledger.Take(0, kKind, 6 * kMiB));
  ledger.GiveContext(0);
  EXPECT_TRUE(ledger.Take(0, kKind, 6 * kMiB));
  ledger.GiveContext(0);
  ledger.GiveContext(0);
  ledger.GiveContext(0);  // one too many
  EXPECT_EQ(ledger.HeldBytes(0), 6 * kMiB);
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_EQ(ledger.HeldBytes(0), 6 * kMiB);
}

TEST_F(MemoryLedgerTest, AFirstContextWithoutRoomStaysHeldAndFurtherOnesComeAndGo) {
  row().memory_limit = row().memory_budget = 25 * kMiB;
  gate_->context_bytes[0] = 10 * kMiB;
  gate_->further_context_bytes[0] = 10 * kMiB;
  MemoryLedger ledger = Make();
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_FALSE(ledger.TakeContext(0));
  EXPECT_EQ(ledger.HeldBytes(0), 20 * kMiB);
  ledger.GiveContext(0);
  ledger.GiveContext(0);
  EXPECT_EQ(ledger.HeldBytes(0), 10 * kMiB);
}

TEST_F(MemoryLedgerTest, NoMoreThanTheBudgetToTheLastByte) {
  row().memory_limit = row().memory_budget = 10 * kMiB;
  MemoryLedger ledger = Make();
  EXPECT_TRUE(ledger.Take(0, kKind, 10 * kMiB - 1));
  EXPECT_TRUE(ledger.Take(0, kKind, 1));
  EXPECT_FALSE(ledger.Take(0, kKind, 1));
  EXPECT_FALSE(ledger.Take(0, kKind, UINT64_MAX)) << "a sum that would begin at 0 again";
  EXPECT_EQ(ledger.LeftBytes(0), 0u);
  EXPECT_EQ(report().memory_asks.load(), 0u) << "nobody could give that much";
  ledger.Give(0, kKind, 4 * kMiB);
  EXPECT_FALSE(ledger.Take(0, kKind, 4 * kMiB + 1));
  EXPECT_TRUE(ledger.Take(0, kKind, 4 * kMiB));
  EXPECT_EQ(report().memory_held.load(), 10 * kMiB);
}

TEST_F(MemoryLedgerTest, TheFirstAllocationAsksForTheBudget) {
  row().memory_limit = 10 * kMiB;
  MemoryLedger ledger = Make();
  std::atomic<bool> done = false;
  std::thread broker = Broker(done, [&] { row().memory_budget.store(row().memory_limit.load()); });
  EXPECT_TRUE(ledger.Take(0, kKind, 6 * kMiB));
  EXPECT_TRUE(ledger.Take(0, kKind, 4 * kMiB));
  EXPECT_EQ(report().memory_asks.load(), 1u);
  EXPECT_EQ(report().memory_wanted.load(), 6 * kMiB);
  done = true;
  broker.join();
  uint64_t rings = 0;
  EXPECT_EQ(read(ring_.get(), &rings, sizeof(rings)), ssize_t{sizeof(rings)});
}

TEST_F(MemoryLedgerTest, AnAnswerThatGivesNothingIsARefusal) {
  row().memory_limit = 10 * kMiB;
  row().memory_budget = 2 * kMiB;
  MemoryLedger ledger = Make();
  std::atomic<bool> done = false;
  std::thread broker = Broker(done, [&] { row().memory_others.store(8 * kMiB); });
  EXPECT_FALSE(ledger.Take(0, kKind, 3 * kMiB));
  EXPECT_TRUE(ledger.Take(0, kKind, kMiB));
  EXPECT_EQ(ledger.LeftBytes(0), kMiB) << "others have eight of ten";
  done = true;
  broker.join();
}

TEST_F(MemoryLedgerTest, TheEndOfTheSessionEndsAWait) {
  row().memory_limit = 10 * kMiB;
  int asked = 0;
  MemoryLedger ledger = Make([&] { return ++asked < 2 ? Status::Ok() : Status(StatusCode::kUnavailable, "the session ends"); });
  EXPECT_FALSE(ledger.Take(0, kKind, kMiB));
  EXPECT_EQ(report().memory_held.load(), 0u);
}

TEST_F(MemoryLedgerTest, WhatWasMeasuredCountsBeyondTheLimit) {
  row().memory_limit = row().memory_budget = 10 * kMiB;
  MemoryLedger ledger = Make();
  ledger.Add(0, kKind, 12 * kMiB);
  EXPECT_EQ(ledger.LeftBytes(0), 0u);
  EXPECT_FALSE(ledger.Take(0, kKind, 1));
}

TEST_F(MemoryLedgerTest, AContextIsCountedOnceWhereItHasNoRoomYet) {
  row().memory_limit = row().memory_budget = 10 * kMiB;
  MemoryLedger ledger = Make();
  EXPECT_TRUE(ledger.TakeContext(0));
  EXPECT_EQ(report().memory_held.load(), 0u) << "it has its room";
  gate_->context_bytes[0] = 4 * kMiB;
  ASSERT_TRUE(ledger.Take(0, kKind, 7 * kMiB));
  EXPECT_FALSE(ledger.TakeContext(0));
  EXPECT_EQ(report().memory_held.load(), 7 * kMiB);
  ledger.Give(0, kKind, kMiB);
  EXPECT_TRUE(ledger.TakeContext(0)) << "there is room by now";
  EXPECT_TRUE(ledger.TakeContext(0)) << "another one";
  EXPECT_EQ(report().memory_held.load(), 10 * kMiB);
  EXPECT_EQ(report().memory_by_kind[static_cast<size_t>(MemoryKind::kContexts)].load(), 4 * kMiB);
  EXPECT_TRUE(ledger.TakeContext(7)) << "no page knows it";
}

TEST_F(MemoryLedgerTest, ChargedGivesBackWhatFailed) {
  row().memory_limit = row().memory_budget = 10 * kMiB;
  MemoryLedger ledger = Make();
  EXPECT_EQ(Charged(ledger, 0, kKind, kMiB, [] { return CUDA_ERROR_INVALID_VALUE; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ledger.HeldBytes(0), 0u);
  bool called = false;
  const auto allocate = [&] {
    called = true;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(Charged(ledger, 0, kKind, 11 * kMiB, allocate), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(called);
  EXPECT_EQ(Charged(ledger, 0, kKind, 10 * kMiB, allocate), CUDA_SUCCESS);
  EXPECT_EQ(ledger.HeldBytes(0), 10 * kMiB);
}

TEST_F(MemoryLedgerTest, KindsAddUpToTheSum) {
  row().memory_limit = row().memory_budget = 10 * kMiB;
  MemoryLedger ledger = Make();
  const auto sum = [&] {
    uint64_t bytes = 0;
    for (const std::atomic<uint64_t>& kind : report().memory_by_kind) bytes += kind.load();
    return bytes;
  };
  ASSERT_TRUE(ledger.Take(0, MemoryKind::kArrays, 3 * kMiB));
  ledger.Add(0, MemoryKind::kPools, 5 * kMiB);
  EXPECT_FALSE(ledger.Take(0, MemoryKind::kImports, 3 * kMiB)) << "it is refused";
  EXPECT_EQ(Charged(ledger, 0, MemoryKind::kVariables, kMiB, [] { return CUDA_ERROR_INVALID_VALUE; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ledger.HeldBytes(0, MemoryKind::kArrays), 3 * kMiB);
  EXPECT_EQ(ledger.HeldBytes(0, MemoryKind::kPools), 5 * kMiB);
  EXPECT_EQ(sum(), ledger.HeldBytes(0));
  {
    ASSERT_TRUE(ledger.Take(0, MemoryKind::kVariables, kMiB));
    HeldMemory first(ledger, 0, MemoryKind::kVariables, kMiB);
    HeldMemory second = std::move(first);
    EXPECT_EQ(ledger.HeldBytes(0, MemoryKind::kVariables), kMiB);
    EXPECT_EQ(sum(), ledger.HeldBytes(0));
  }
  ledger.Give(0, MemoryKind::kPools, 5 * kMiB);
  ledger.Give(0, MemoryKind::kArrays, 3 * kMiB);
  for (const std::atomic<uint64_t>& kind : report().memory_by_kind) EXPECT_EQ(kind.load(), 0u);
}

TEST_F(MemoryLedgerTest, HeldMemoryGivesItBackOnce) {
  MemoryLedger ledger = Make();
  HeldObjects objects;
  ASSERT_TRUE(ledger.Take(0, kKind, 7));
  HeldMemory held(ledger, 0, kKind, 7);
  objects.Keep(1, std::move(held));
  ASSERT_TRUE(ledger.Take(0, kKind, 5));
  objects.Keep(1, HeldMemory(ledger, 0, kKind, 5));
  EXPECT_EQ(ledger.HeldBytes(0), 12u) << "nobody has freed the first";
  objects.Drop(2);
  objects.Drop(1);
  EXPECT_EQ(ledger.HeldBytes(0), 7u);
  objects.Keep(3, HeldMemory());
  objects.Lose(3);
  objects.Drop(3);
  EXPECT_EQ(ledger.HeldBytes(0), 7u);
}

// A broker takes back what is not used, again and again, while two threads of the session allocate and free.
TEST_F(MemoryLedgerTest, NoBudgetIsEverOverdrawn) {
  row().memory_limit = 100;
  row().memory_budget = 100;
  MemoryLedger ledger = Make([] { return Status(StatusCode::kUnavailable, "nobody answers here"); });
  std::atomic<bool> done = false;
  std::atomic<uint64_t> held = 0, most = 0;
  const auto session = [&] {
    while (!done.load()) {
      if (!ledger.Take(0, kKind, 10)) continue;
      const uint64_t now = held.fetch_add(10) + 10;
      uint64_t before = most.load();
      while (now > before && !most.compare_exchange_weak(before, now)) {
      }
      held.fetch_sub(10);
      ledger.Give(0, kKind, 10);
    }
  };
  std::thread one(session), two(session);
  for (int i = 0; i < 20'000; ++i) {
    row().memory_budget.store(10, std::memory_order_seq_cst);
    const uint64_t seen = report().memory_held.load(std::memory_order_seq_cst);
    if (seen > 10) row().memory_budget.store(seen, std::memory_order_seq_cst);
    // What is held from here on is within the budget, whoever allocates.
    const uint64_t budget = row().memory_budget.load();
    const uint64_t now = held.load();
    ASSERT_LE(now, budget);
    row().memory_budget.store(100, std::memory_order_seq_cst);
  }
  done = true;
  one.join();
  two.join();
  EXPECT_LE(most.load(), 20u);
  EXPECT_EQ(report().memory_held.load(), 0u);
}

}  // namespace
}  // namespace tessera
