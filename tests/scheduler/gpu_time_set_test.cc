// One GPU's part in sets of tokens.
#include <gtest/gtest.h>

#include "scheduler/gpu_time.h"
#include "scheduler/policies/policies.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

constexpr int64_t kHeldNs = GpuTime::kAssembleNs - GpuTime::kBeginNs;

// Two vGPUs of one half each, both of which have worked; the session of the first one works on other GPUs, too.
class GpuTimeSetTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"set", "other"}) {
      const VgpuId vgpu = time_.AddVgpu({.name = name, .request = 0.5}, 0).value();
      time_.Worked(time_.SessionCame(vgpu, 0), 0);
    }
    time_.Decide(0);
    time_.SetTogether(0, true);
  }
  bool IsOpen(VgpuId vgpu, int64_t now_ns) const { return time_.gate(vgpu).open_until_ns > now_ns; }
  // The other one has the token from `at_ns` on, and works.
  void OtherRuns(int64_t at_ns) {
    time_.SetWants(1, true, at_ns);
    time_.Decide(at_ns);
    time_.BusyBegan(1, at_ns);
    ASSERT_TRUE(IsOpen(1, at_ns));
  }

  GpuTime time_{{.request_zero = false}, std::move(MakePolicy("fair")).value()};
};

TEST_F(GpuTimeSetTest, WhoIsNextForASetIsOfferedTheGpuAndGetsItWithTheOthers) {
  time_.SetWants(0, true, 0);
  EXPECT_EQ(time_.Decide(0).ask_again_ns, kHeldNs);
  ASSERT_TRUE(time_.offer());
  EXPECT_EQ(time_.offer()->vgpu, 0u);
  EXPECT_EQ(time_.offer()->until_ns, kHeldNs);
  EXPECT_FALSE(IsOpen(0, 0));
  EXPECT_TRUE(time_.gate(0).next);
  time_.Grant(0, 5 * kMs);
  time_.Decide(kMs);
  EXPECT_FALSE(time_.offer());
  EXPECT_EQ(time_.gate(0).open_until_ns, 5 * kMs);
}

TEST_F(GpuTimeSetTest, OneThatWantsItHasItAloneWhereTheOthersDoNotCome) {
  time_.SetWants(0, true, 0);
  time_.Decide(0);
  time_.SetWants(1, true, kMs / 2);
  time_.Decide(kMs / 2);
  EXPECT_FALSE(IsOpen(1, kMs / 2));
  time_.Decide(kHeldNs);
  EXPECT_TRUE(IsOpen(0, kHeldNs));
  EXPECT_EQ(time_.state(0).sets_failed, 1u);
  // What the other one waited for is charged, and not billed.
  EXPECT_EQ(time_.state(0).idled_ns, kHeldNs - kMs / 2);
  EXPECT_EQ(time_.ledger().BilledNs(0), 0);
}

TEST_F(GpuTimeSetTest, WhoIsAppointedIsNextAndTokensUntilThenEndByThen) {
  OtherRuns(0);
  time_.Appoint(0, 6 * kMs);
  int64_t at_ns = 0, end_ns = 0;
  for (; at_ns < 6 * kMs - GpuTime::kAheadMaxNs; at_ns += kMs / 10) {
    time_.Decide(at_ns);
    end_ns = std::max(end_ns, time_.gate(1).open_until_ns);
  }
  EXPECT_GE(end_ns, 5 * kMs);
  EXPECT_LE(end_ns, 6 * kMs);
  time_.BusyEnded(1, 6 * kMs);
  time_.Decide(6 * kMs);
  ASSERT_TRUE(time_.offer());
  EXPECT_EQ(time_.offer()->vgpu, 0u);
  // It does not want the GPU by itself: the next one has it when its set does not come.
  time_.Decide(6 * kMs + kHeldNs);
  EXPECT_FALSE(IsOpen(0, 6 * kMs + kHeldNs));
  EXPECT_TRUE(IsOpen(1, 6 * kMs + kHeldNs));
  EXPECT_FALSE(time_.appointed());
}

TEST_F(GpuTimeSetTest, ASetsTokenThatIsNotUsedSoonIsOver) {
  OtherRuns(0);
  time_.BusyEnded(1, kMs);
  time_.SetWants(1, false, kMs);
  time_.Decide(kMs);
  time_.Appoint(0, kMs);
  time_.Decide(2 * kMs);
  time_.Grant(0, 9 * kMs);
  time_.SetWants(1, true, 2 * kMs);
  time_.Decide(2 * kMs);
  EXPECT_TRUE(IsOpen(0, 2 * kMs));
  time_.Decide(2 * kMs + GpuTime::kBeginNs);
  EXPECT_FALSE(IsOpen(0, 2 * kMs + GpuTime::kBeginNs));
  EXPECT_TRUE(IsOpen(1, 2 * kMs + GpuTime::kBeginNs));
  EXPECT_EQ(time_.state(0).sets_failed, 1u);
}

TEST_F(GpuTimeSetTest, WhoIsFarAheadOfItsShareDoesNotJoin) {
  time_.SetWants(0, true, 0);
  time_.Decide(0);
  time_.Grant(0, 100 * kMs);
  time_.Decide(0);
  time_.BusyBegan(0, 0);
  time_.SetWants(1, true, 0);
  for (int64_t at_ns = kMs; at_ns <= 60 * kMs; at_ns += kMs) time_.Decide(at_ns);
  EXPECT_EQ(time_.JoinAtNs(0, 60 * kMs), kNever);
  time_.Grant(1, 70 * kMs);  // void: another one has it
  time_.Decide(60 * kMs);
  EXPECT_FALSE(IsOpen(1, 60 * kMs));
}

TEST_F(GpuTimeSetTest, WithoutItsSessionNothingOfASetIsLeft) {
  time_.SetWants(0, true, 0);
  time_.Decide(0);
  time_.Appoint(0, kMs);
  time_.SessionLeft(0, kMs);
  time_.SetWants(1, true, kMs);
  time_.Worked(1, kMs);
  time_.Decide(kMs);
  EXPECT_FALSE(time_.offer());
  time_.RemoveVgpu(0);
  time_.Decide(2 * kMs);
  EXPECT_FALSE(time_.appointed());
}

}  // namespace
}  // namespace tessera
