#include "server/broker/vgpu_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kLimitBytes = 1000;

// The pages of a worker that allocates as it says.
struct Worker {
  std::unique_ptr<GatePage> gate = std::make_unique<GatePage>();
  std::unique_ptr<ReportPage> report = std::make_unique<ReportPage>();
  WorkerPages pages{*gate, *report};

  GatePage::Row& row() { return gate->rows[0]; }
  uint64_t budget() { return row().memory_budget.load(); }
  uint64_t held() { return report->rows[0].memory_held.load(); }
  void Hold(uint64_t bytes) { report->rows[0].memory_held.store(bytes); }
  void Want(uint64_t bytes) {
    report->rows[0].memory_wanted.store(bytes);
    report->rows[0].memory_asks.fetch_add(1);
  }
  // As a worker's ledger does: false where the budget does not allow it.
  bool Take(uint64_t bytes) {
    if (held() + bytes > budget()) return false;
    Hold(held() + bytes);
    return true;
  }
};

class VgpuMemoryTest : public testing::Test {
 protected:
  Worker& Join(uint64_t limit = kLimitBytes) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    pages_.push_back(&worker.pages);
    worker.row().memory_limit.store(limit);  // as the daemon does
    JoinMemory(pages_, worker.pages, 0, limit);
    return worker;
  }
  void Answer(Worker& worker) { AnswerMemory(pages_, worker.pages, 0); }
  uint64_t Budgets() {
    uint64_t sum = 0;
    for (const auto& worker : workers_) sum += worker->budget();
    return sum;
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<WorkerPages*> pages_;
};

TEST_F(VgpuMemoryTest, OneAloneGetsAllAtOnce) {
  Worker& worker = Join();
  EXPECT_EQ(worker.budget(), 0u);
  EXPECT_FALSE(AsksForMemory(worker.pages, 0));
  worker.Want(1);
  EXPECT_TRUE(AsksForMemory(worker.pages, 0));
  Answer(worker);
  EXPECT_FALSE(AsksForMemory(worker.pages, 0));
  EXPECT_EQ(worker.budget(), kLimitBytes);
  EXPECT_EQ(worker.gate->changes.load(), 1u);
}

TEST_F(VgpuMemoryTest, WhatOneDoesNotUseIsAnothers) {
  Worker& first = Join();
  first.Want(1);
  Answer(first);
  first.Hold(300);
  Worker& second = Join();
  second.Want(500);
  Answer(second);
  EXPECT_EQ(first.budget(), 400u) << "what it holds, and half of what nobody needs";
  EXPECT_EQ(second.budget(), 600u);
  second.Want(701);
  Answer(second);
  EXPECT_EQ(second.budget(), 700u) << "all that there is, and too little";
  EXPECT_EQ(first.budget(), 300u);
  EXPECT_EQ(second.row().memory_others.load(), 300u);
}

TEST_F(VgpuMemoryTest, ALowerLimitTakesNothingAway) {
  Worker& first = Join();
  Worker& second = Join();
  first.Want(600);
  Answer(first);
  first.Hold(600);
  ChangeMemoryLimit(pages_, 0, 500);
  EXPECT_EQ(first.held(), 600u);
  EXPECT_FALSE(first.Take(1));
  for (Worker* worker : {&first, &second}) {
    worker->Want(1);
    Answer(*worker);
    EXPECT_FALSE(worker->Take(1));
  }
  ChangeMemoryLimit(pages_, 0, 700);
  second.Want(101);
  Answer(second);
  EXPECT_FALSE(second.Take(101)) << "the first holds 600 still";
  second.Want(100);
  Answer(second);
  EXPECT_TRUE(second.Take(100));
  EXPECT_FALSE(second.Take(1));
}

TEST_F(VgpuMemoryTest, ContextsOfFurtherSessionsAreOfTheLimit) {
  constexpr uint64_t kContext = 100;
  const auto join = [&]() -> Worker& {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    pages_.push_back(&worker.pages);
    worker.row().memory_limit.store(kLimitBytes);
    JoinMemory(pages_, worker.pages, 0, kLimitBytes, ContextsBytes(pages_.size(), 1, kContext));
    return worker;
  };
  const auto ask = [&](Worker& worker, uint64_t bytes) {
    worker.Want(bytes);
    AnswerMemory(pages_, worker.pages, 0, ContextsBytes(pages_.size(), 1, kContext));
    return worker.Take(bytes);
  };
  Worker& first = join();
  EXPECT_TRUE(ask(first, 300));
  EXPECT_EQ(first.budget(), kLimitBytes) << "the first one's context was set aside";
  Worker& second = join();
  EXPECT_LE(Budgets(), kLimitBytes - kContext) << "from the moment that it is there";
  EXPECT_TRUE(ask(second, 600));
  EXPECT_FALSE(ask(second, 1));
  EXPECT_EQ(first.row().memory_others.load(), 600 + kContext);
  Worker& third = join();
  EXPECT_FALSE(ask(third, 1));
  pages_.pop_back();
  workers_.pop_back();
  EXPECT_FALSE(ask(second, 1));
  pages_.pop_back();
  EXPECT_TRUE(ask(first, 700)) << "alone again";
}

TEST_F(VgpuMemoryTest, ARefusalIsAnAnswer) {
  Worker& worker = Join();
  worker.Want(1);
  RefuseMemory(worker.pages, 0);
  EXPECT_FALSE(AsksForMemory(worker.pages, 0));
  EXPECT_EQ(worker.budget(), 0u);
  EXPECT_EQ(worker.gate->changes.load(), 1u);
}

TEST_F(VgpuMemoryTest, ALimitThatComesLaterCountsWhatIsHeld) {
  Worker& worker = Join(0);
  worker.Hold(400);
  ChangeMemoryLimit(pages_, 0, kLimitBytes);
  EXPECT_EQ(worker.budget(), 400u);
  worker.Want(600);
  Answer(worker);
  EXPECT_TRUE(worker.Take(600));
}

TEST_F(VgpuMemoryTest, ABrokerThatStartsAnewLeavesBudgets) {
  Worker& first = Join();
  Worker& second = Join();
  first.Want(600);
  Answer(first);
  first.Hold(550);
  const uint64_t of_first = first.budget(), of_second = second.budget();
  // Another broker hears of one after the other.
  std::vector<WorkerPages*> known = {&first.pages};
  JoinMemory(known, first.pages, 0, kLimitBytes);
  EXPECT_EQ(first.budget(), of_first);
  known.push_back(&second.pages);
  JoinMemory(known, second.pages, 0, kLimitBytes);
  EXPECT_EQ(second.budget(), of_second);
}

TEST_F(VgpuMemoryTest, WhatAWorkerMakesUpIsBounded) {
  Worker& liar = Join();
  Worker& honest = Join();
  liar.Want(UINT64_MAX);
  liar.Hold(UINT64_MAX);
  Answer(liar);
  EXPECT_LE(Budgets(), kLimitBytes);
  honest.Want(10);
  Answer(honest);
  EXPECT_LE(Budgets(), kLimitBytes);
  ChangeMemoryLimit(pages_, 0, 100);
  honest.Want(UINT64_MAX);
  Answer(honest);
  EXPECT_LE(honest.budget(), 100u);
}

TEST_F(VgpuMemoryTest, BudgetsNeverExceedTheLimit) {
  for (int i = 0; i < 5; ++i) Join();
  std::mt19937 chance(7);
  for (int i = 0; i < 20'000; ++i) {
    Worker& worker = *workers_[chance() % workers_.size()];
    const uint64_t bytes = chance() % 400;
    if (chance() % 2 == 0) {
      worker.Hold(worker.held() - std::min(worker.held(), bytes));
    } else if (!worker.Take(bytes)) {
      uint64_t held = 0;
      for (const auto& each : workers_) held += each->held();
      worker.Want(bytes);
      Answer(worker);
      EXPECT_EQ(worker.Take(bytes), held + bytes <= kLimitBytes);
    }
    ASSERT_LE(Budgets(), kLimitBytes);
  }
}

}  // namespace
}  // namespace tessera
