#include "scheduler/gpu_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/policies/policies.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

// A GPU with a vGPU and a session for each spec, and the gates as they were last told.
const VgpuSpec kHalf = {.name = "half", .request = 0.5};
const VgpuSpec kOther = {.name = "other", .request = 0.5};

class GpuTimeTest : public testing::Test {
 protected:
  void Begin(const std::vector<VgpuSpec>& specs, std::string_view policy = "fair") {
    time_ = std::make_unique<GpuTime>(AdmissionRules{.request_zero = false}, std::move(MakePolicy(policy)).value());
    for (const VgpuSpec& spec : specs) {
      Result<VgpuId> vgpu = time_->AddVgpu(spec, 0);
      ASSERT_TRUE(vgpu.ok()) << vgpu.status().message();
      sessions_.push_back(time_->SessionCame(*vgpu, 0));
    }
    gates_.resize(specs.size());
    Decide(0);
  }
  // Both work, so that the GPU is metered from time 0 on.
  void BeginMetered(const std::vector<VgpuSpec>& specs, std::string_view policy = "fair") {
    Begin(specs, policy);
    for (const SessionId session : sessions_) time_->Worked(session, 0);
    Decide(0);
    ASSERT_EQ(time_->mode(), GpuMode::kMetered);
  }
  void Decide(int64_t now_ns) {
    const GpuTime::Decision decision = time_->Decide(now_ns);
    for (const VgpuId vgpu : decision.changed) gates_[vgpu] = time_->gate(vgpu);
    ask_again_ns_ = decision.ask_again_ns;
    EXPECT_GT(ask_again_ns_, now_ns);
    for (const VgpuId vgpu : time_->vgpus()) EXPECT_EQ(gates_[vgpu], time_->gate(vgpu)) << "a change was not told";
  }
  // The worker of `session` takes what its open gate lets it, from then on.
  void Runs(SessionId session, int64_t at_ns) {
    time_->BusyBegan(session, at_ns);
    time_->SetWants(session, false, at_ns);
  }
  void Wants(SessionId session, int64_t at_ns) { time_->SetWants(session, true, at_ns); }
  // The first of two has the token, works, and wants to go on at the token's end, which this is.
  int64_t FirstOfTwoWorks() {
    BeginMetered({kHalf, kOther});
    Wants(0, 0);
    Wants(1, 0);
    Decide(0);
    const int64_t end_ns = gates_[0].open_until_ns;
    Runs(0, 0);
    Wants(0, end_ns);
    return end_ns;
  }
  bool IsOpen(VgpuId vgpu, int64_t now_ns) const { return gates_[vgpu].open_until_ns > now_ns; }

  std::unique_ptr<GpuTime> time_;
  std::vector<SessionId> sessions_;
  std::vector<GateState> gates_;
  int64_t ask_again_ns_ = 0;
};

const VgpuSpec kProtected = {.name = "protected", .request = 0.3, .priority = Priority::kProtected};
const VgpuSpec kLimited = {.name = "limited", .request = 0.3, .limit = 0.3};

TEST_F(GpuTimeTest, IsFreeForOneArmedForRestingOnesAndMeteredForTwoThatWork) {
  Begin({kHalf});
  EXPECT_EQ(gates_[0], (GateState{GpuMode::kFree, kNever, false}));
  const VgpuId other = time_->AddVgpu(kOther, kMs).value();
  gates_.emplace_back();
  Decide(kMs);
  EXPECT_EQ(time_->mode(), GpuMode::kFree);  // it has no session
  const SessionId session = time_->SessionCame(other, 2 * kMs);
  time_->Worked(sessions_[0], 2 * kMs);
  Decide(2 * kMs);
  EXPECT_EQ(gates_[0], (GateState{GpuMode::kArmed, kNever, false}));
  time_->Worked(session, 3 * kMs);
  Decide(3 * kMs);
  EXPECT_EQ(time_->mode(), GpuMode::kMetered);
  EXPECT_FALSE(IsOpen(0, 3 * kMs));
  // One of them works no more.
  for (int64_t at_ns = 4 * kMs; at_ns < 1003 * kMs; at_ns += 10 * kMs) {
    Wants(sessions_[0], at_ns);
    Decide(at_ns);
    EXPECT_EQ(time_->mode(), GpuMode::kMetered);
  }
  EXPECT_LE(ask_again_ns_, 1003 * kMs + 1);
  Decide(1003 * kMs + 1);
  EXPECT_EQ(time_->mode(), GpuMode::kArmed);
  time_->SessionLeft(session, 1100 * kMs);
  Decide(1100 * kMs);
  EXPECT_EQ(time_->mode(), GpuMode::kFree);
}

TEST_F(GpuTimeTest, WhatWasReportedIsVoidWhenTokensEnd) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  Decide(kMs);
  time_->SessionLeft(1, 2 * kMs);
  Decide(2 * kMs);
  EXPECT_EQ(time_->mode(), GpuMode::kFree);
  EXPECT_FALSE(time_->state(0).busy());
  Decide(500 * kMs);
  EXPECT_LE(time_->ledger().BilledNs(0), 2 * kMs);
  time_->BusyEnded(0, 400 * kMs);  // late, and of no meaning
  Decide(600 * kMs);
}

TEST_F(GpuTimeTest, OneWithALimitIsMeteredByItself) {
  Begin({kLimited});
  EXPECT_EQ(time_->mode(), GpuMode::kMetered);
  Wants(0, 0);
  Decide(0);
  EXPECT_TRUE(IsOpen(0, 0));
  EXPECT_TRUE(time_->ChangeSpec(0, {.name = "limited", .request = 0.3, .limit = 1}).ok());
  Decide(kMs);
  EXPECT_EQ(time_->mode(), GpuMode::kFree);
}

TEST_F(GpuTimeTest, OneHoldsTheTokenAndTheNextGetsItWhenIdle) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Wants(1, 0);
  Decide(0);
  ASSERT_TRUE(IsOpen(0, 0));
  EXPECT_FALSE(IsOpen(1, 0));
  EXPECT_FALSE(gates_[1].next);
  EXPECT_EQ(time_->HandOverNs(), kNever);
  Runs(0, 0);
  Decide(ask_again_ns_);  // a little before its end
  EXPECT_TRUE(gates_[1].next);
  EXPECT_EQ(gates_[1].open_until_ns, 0);
  const int64_t end_ns = gates_[0].open_until_ns;
  EXPECT_EQ(ask_again_ns_, end_ns);
  EXPECT_EQ(time_->HandOverNs(), end_ns);
  Wants(0, end_ns);
  time_->SetQueued(0, 100'000, end_ns);
  Decide(end_ns);
  EXPECT_FALSE(IsOpen(1, end_ns));  // the holder runs what it has queued
  EXPECT_EQ(time_->HandOverNs(), end_ns + 100'000);
  time_->BusyEnded(0, end_ns + 100'000);
  Decide(end_ns + 100'000);
  EXPECT_TRUE(IsOpen(1, end_ns + 100'000));
  EXPECT_EQ(gates_[0].open_until_ns, 0);
}

TEST_F(GpuTimeTest, AHolderWhoRestsGivesTheTokenBackAndIsNotBilledForIt) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Wants(1, 0);
  Decide(0);
  Runs(0, 0);
  time_->BusyEnded(0, kMs / 2);
  Decide(kMs / 2);
  EXPECT_TRUE(IsOpen(1, kMs / 2));
  EXPECT_EQ(gates_[0].open_until_ns, 0);
  EXPECT_EQ(time_->ledger().UsedNs(0, Window::kOneSecond), kMs / 2);
}

TEST_F(GpuTimeTest, AHolderWithoutOthersKeepsItsTokenThroughARest) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  time_->BusyEnded(0, kMs / 2);
  Decide(kMs / 2);
  EXPECT_TRUE(IsOpen(0, kMs / 2));
}

TEST_F(GpuTimeTest, AHolderWithoutOthersIsRenewedWithoutAGap) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  for (int64_t now_ns = ask_again_ns_; now_ns < 500 * kMs; now_ns = ask_again_ns_) {
    EXPECT_TRUE(IsOpen(0, now_ns)) << now_ns;
    Decide(now_ns);
    EXPECT_GT(gates_[0].open_until_ns, ask_again_ns_);
  }
}

TEST_F(GpuTimeTest, WhoOverrunsStopsNobodyAfterTheGraceAndIsBilled) {
  for (const auto& [queued_ns, grace_ns] : {std::pair{int64_t{0}, 2 * kMs}, {20 * kMs, 20 * kMs}, {kSecondNs, 50 * kMs}}) {
    sessions_.clear();
    const int64_t end_ns = FirstOfTwoWorks();
    time_->SetQueued(0, queued_ns, end_ns);
    Decide(end_ns);
    EXPECT_EQ(ask_again_ns_, end_ns + grace_ns);
    EXPECT_TRUE(gates_[1].next);
    Decide(end_ns + grace_ns - 1);
    EXPECT_FALSE(IsOpen(1, end_ns + grace_ns - 1));
    Decide(end_ns + grace_ns);
    EXPECT_TRUE(IsOpen(1, end_ns + grace_ns));
    EXPECT_EQ(time_->state(0).overran_since_ns, end_ns);
    Runs(1, end_ns + grace_ns);
    Decide(end_ns + grace_ns + 2 * kMs);
    // Alone until then and for the driver's turn, half of it since.
    const int64_t half_ns = (2 * kMs - BusyTally::kTurnNs) / 2;
    EXPECT_EQ(time_->ledger().UsedNs(0, Window::kOneSecond), end_ns + grace_ns + BusyTally::kTurnNs + half_ns);
    EXPECT_EQ(time_->ledger().UsedNs(1, Window::kOneSecond), half_ns);
  }
}

TEST_F(GpuTimeTest, WhoOverrunsWithinItsGraceHasOverrun) {
  const int64_t end_ns = FirstOfTwoWorks();
  Decide(end_ns);
  time_->BusyEnded(0, end_ns + kMs);
  Decide(end_ns + kMs);
  EXPECT_TRUE(IsOpen(1, end_ns + kMs));
  EXPECT_GE(time_->state(0).overran_ns, kMs / 2);
}

TEST_F(GpuTimeTest, AProtectedOneTakesTheTokenOnArrival) {
  BeginMetered({kHalf, kProtected});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  Wants(1, kMs);
  Decide(kMs);
  EXPECT_TRUE(IsOpen(1, kMs));
  EXPECT_EQ(gates_[0].open_until_ns, 0);
}

// Each of its kernels waits up to 2 ms for the driver to change to it: time that is not its own.
TEST_F(GpuTimeTest, AProtectedOneOfShortKernelsAlwaysTakesTheTokenOnArrival) {
  BeginMetered({{.name = "half", .request = 0.7}, kProtected});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  int64_t now_ns = 0;
  for (int i = 0; i < 1'000; ++i) {
    Wants(0, now_ns);
    Wants(1, now_ns);
    Decide(now_ns);
    ASSERT_TRUE(IsOpen(1, now_ns)) << i;
    Runs(1, now_ns);
    Decide(now_ns += 100'000 + i * 1'900'000 / 1'000);
    time_->BusyEnded(1, now_ns);
    Decide(now_ns);
    ASSERT_TRUE(IsOpen(0, now_ns)) << i;
    Decide(now_ns += kMs / 2);
  }
}

TEST_F(GpuTimeTest, AProtectedOneThatIsAheadOfItsShareWaitsItsTurn) {
  BeginMetered({{.name = "half", .request = 0.7}, kProtected});
  Wants(0, 0);
  Wants(1, 0);
  Decide(0);
  int64_t now_ns = 0;
  Runs(1, 0);
  Decide(now_ns = 200 * kMs);  // beyond its token, while the other waits
  time_->BusyEnded(1, now_ns);
  Decide(now_ns);
  ASSERT_TRUE(IsOpen(0, now_ns));
  Runs(0, now_ns);
  Wants(1, now_ns += 100'000);
  Decide(now_ns);
  EXPECT_TRUE(IsOpen(0, now_ns));
  EXPECT_FALSE(IsOpen(1, now_ns));
}

TEST_F(GpuTimeTest, SaysWhenToBeAskedAgainWhereNobodyIsEligible) {
  Begin({kLimited});
  Wants(0, 0);
  Decide(0);
  Runs(0, 0);
  Wants(0, gates_[0].open_until_ns);
  Decide(40 * kMs);
  time_->BusyEnded(0, 40 * kMs);
  Decide(40 * kMs);
  EXPECT_FALSE(IsOpen(0, 40 * kMs));
  ASSERT_NE(ask_again_ns_, kNever);
  const int64_t again_ns = ask_again_ns_;
  Decide(again_ns - 1000);
  EXPECT_FALSE(IsOpen(0, again_ns - 1000));
  Decide(again_ns);
  EXPECT_TRUE(IsOpen(0, again_ns));
}

TEST_F(GpuTimeTest, ASessionThatLeavesGivesTheTokenBackAtOnce) {
  BeginMetered({kHalf, kOther});
  Wants(0, 0);
  Wants(1, 0);
  Decide(0);
  Runs(0, 0);
  time_->SessionLeft(0, kMs);
  time_->Worked(1, kMs);
  Decide(kMs);
  EXPECT_TRUE(gates_[1].open_until_ns > kMs);
  time_->RemoveVgpu(0);
  Decide(2 * kMs);
  EXPECT_EQ(time_->AddVgpu({.name = "new", .request = 0.5}, 3 * kMs).value(), 0u);
  gates_[0] = time_->gate(0);
  Decide(3 * kMs);
  EXPECT_EQ(time_->ledger().UsedNs(0, Window::kTenSeconds), 0);
}

TEST_F(GpuTimeTest, RepeatedAndMisorderedReportsDoNoHarm) {
  BeginMetered({kHalf, kOther});
  for (int i = 0; i < 3; ++i) {
    time_->BusyEnded(0, 5 * kMs);
    time_->SetWants(0, false, 5 * kMs);
    time_->BusyBegan(0, 4 * kMs);
  }
  time_->BusyEnded(0, kMs);  // before its beginning
  Decide(10 * kMs);
  EXPECT_EQ(time_->ledger().BilledNs(0), kMs);  // from 4 to 5, once
  EXPECT_FALSE(time_->state(0).active());
}

TEST_F(GpuTimeTest, ARefusedChangeLeavesAllAsItWas) {
  BeginMetered({kHalf, kOther});
  EXPECT_EQ(time_->ChangeSpec(0, {.name = "half", .request = 0.6}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(time_->state(0).spec, kHalf);
  EXPECT_EQ(time_->AddVgpu({.name = "more", .request = 0.1}, 0).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(time_->vgpus().size(), 2u);
}

TEST(PoliciesTest, EachIsMadeByItsName) {
  for (const std::string_view name : PolicyNames()) EXPECT_EQ(MakePolicy(name).value()->name(), name);
  EXPECT_EQ(MakePolicy(kDefaultPolicy).value()->name(), "fair");
  const Status unknown = MakePolicy("best").status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_EQ(unknown.message(), "policy 'best' is unknown: there are equal, fair, fixed, priority");
}

// Its stream waits for what stands behind the work that waits for the token: it is busy for ever, and billed.
TEST_F(GpuTimeTest, WhoMayWaitForItselfGoesOnWhateverItsBillAndItsLimit) {
  for (const auto& [queued_ns, tokens_least] : {std::pair{int64_t{0}, 80}, {50 * kMs, 25}, {3'000 * kMs, 1}}) {
    sessions_.clear();
    BeginMetered({kLimited, kOther});
    for (const SessionId session : sessions_) {
      Wants(session, 0);
      time_->BusyBegan(session, 0);
    }
    int64_t tokens = 0, open_ns = 0, now_ns = 0, opened_ns = 0;
    bool was_open = false;
    while (now_ns < 20'000 * kMs) {
      now_ns = std::min(ask_again_ns_, now_ns + kMs);
      Decide(now_ns);
      const bool open = IsOpen(0, now_ns);
      if (now_ns > 10'000 * kMs && open && !was_open) {
        ++tokens;
        // What is queued counts from the end of the token before.
        const int64_t left_ns = std::max<int64_t>(0, queued_ns - GpuTime::kStuckTokenNs);
        EXPECT_GE(now_ns - opened_ns, GpuTime::kStuckNs + GpuTime::kStuckQueuedFactor * left_ns);
        open_ns += gates_[0].open_until_ns - now_ns;
      }
      if (open && !was_open) {
        opened_ns = now_ns;
        time_->SetQueued(sessions_[0], queued_ns, now_ns);
      }
      was_open = open;
    }
    EXPECT_GE(tokens, tokens_least);
    EXPECT_LE(open_ns, 10'000 * kMs / 40);
  }
}

// What its tokens let in is no more than its limit.
TEST_F(GpuTimeTest, WhoMayWaitForItselfGetsNoMoreThanItsLimit) {
  for (const double limit : {0.3, 0.05, 0.01}) {
    for (const int64_t queued_ns : {int64_t{0}, 20 * kMs, 500 * kMs}) {
      sessions_.clear();
      BeginMetered({{.name = "stuck", .request = limit, .limit = limit}, kOther});
      for (const SessionId session : sessions_) {
        Wants(session, 0);
        time_->BusyBegan(session, 0);
      }
      constexpr int64_t kEndNs = 200'000 * kMs;
      int64_t ran_ns = 0, now_ns = 0;
      bool was_open = true;  // the first token is a usual one
      while (now_ns < kEndNs) {
        now_ns = std::min(ask_again_ns_, now_ns + kMs);
        Decide(now_ns);
        const bool open = IsOpen(0, now_ns);
        if (open && !was_open) {
          ran_ns += std::max(queued_ns, GpuTime::kStuckTokenNs);
          time_->SetQueued(sessions_[0], queued_ns, now_ns);
        }
        was_open = open;
      }
      EXPECT_GT(ran_ns, 0);
      EXPECT_LE(ran_ns, static_cast<int64_t>(limit * kEndNs) + queued_ns) << limit << " " << queued_ns;
    }
  }
}

}  // namespace
}  // namespace tessera
