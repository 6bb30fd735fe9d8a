#include "client-stub/session/poll_table.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using State = PollTable::State;
constexpr PollTable::Key kObject = 7;

struct PollTableTest : testing::Test {
  // A query that found the object unfinished, with `news` records read before it.
  uint64_t NotReady(uint64_t news, uint64_t sequence = 0) {
    const uint64_t mark = polls.Begin(kObject);
    polls.End(kObject, mark, CUDA_ERROR_NOT_READY, news, now_ns, sequence);
    return mark;
  }
  State Look(uint64_t news, uint64_t sequence = 0) { return polls.Look(kObject, news, now_ns, sequence); }

  MarkTable marks;
  PollTable polls{marks};
  uint64_t now_ns = 1000;
};

TEST_F(PollTableTest, NotReadyHoldsUntilSomethingElseIsHeard) {
  EXPECT_EQ(Look(5), State::kUnknown);
  EXPECT_NE(NotReady(5), 0u);
  EXPECT_EQ(Look(6), State::kPending);  // the answer itself was the sixth
  EXPECT_EQ(Look(7), State::kUnknown);
  EXPECT_EQ(NotReady(7), 0u) << "the first mark is still outstanding";
  EXPECT_EQ(Look(8), State::kPending);
}

TEST_F(PollTableTest, NotReadyIsConfirmedAfterAWhile) {
  NotReady(0);
  now_ns += PollTable::kConfirmNs - 1;
  EXPECT_EQ(Look(1), State::kPending);
  now_ns += 1;
  EXPECT_EQ(Look(1), State::kUnknown);
}

TEST_F(PollTableTest, AMarkEndsIt) {
  const uint64_t mark = NotReady(0);
  marks.Pass(mark, CUDA_SUCCESS);
  EXPECT_EQ(Look(2), State::kDone);
  EXPECT_EQ(Look(9), State::kDone);
  polls.Forget(kObject);
  EXPECT_EQ(Look(9), State::kUnknown);
  EXPECT_TRUE(polls.empty());
}

TEST_F(PollTableTest, AStreamIsDoneOnlyAsFarAsWasAsked) {
  uint64_t mark = NotReady(0, 41);
  marks.Pass(mark, CUDA_SUCCESS);
  EXPECT_EQ(Look(2, 41), State::kDone);
  EXPECT_EQ(Look(2, 42), State::kUnknown);
  EXPECT_TRUE(polls.empty());
}

TEST_F(PollTableTest, AFailureIsAskedFor) {
  marks.Pass(NotReady(0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Look(2), State::kUnknown);
  EXPECT_TRUE(polls.empty());
}

TEST_F(PollTableTest, AnAnswerAfterNewWorkCounts) {
  const uint64_t mark = polls.Begin(kObject);
  polls.Forget(kObject);  // recorded again by another thread
  polls.End(kObject, mark, CUDA_ERROR_NOT_READY, 0, now_ns, 0);
  EXPECT_EQ(Look(1), State::kUnknown);
  EXPECT_NE(NotReady(1), 0u);
  EXPECT_EQ(Look(2), State::kPending);
}

TEST_F(PollTableTest, AReadyAnswerForgetsTheMark) {
  const uint64_t mark = polls.Begin(kObject);
  polls.End(kObject, mark, CUDA_SUCCESS, 0, now_ns, 0);
  EXPECT_TRUE(polls.empty());
  EXPECT_FALSE(marks.Passed(mark));
}

}  // namespace
}  // namespace tessera
