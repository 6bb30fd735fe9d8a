#include "server/daemon/readings/audit.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

AuditedWorker NobodyIsAsked(uint64_t, uint32_t) { return {}; }

// Two sessions on GPU 0 in virtual seconds: 1 does as the test says, 2 is always busy, and says so.
class AuditTest : public testing::Test {
 protected:
  static constexpr int kNotSeen = -1;

  // A second in which worker 1 says that it was busy for `reported` % of the time, and NVML says `seen`. How many were found.
  size_t Pass(int reported, int seen, int watched = 100) {
    now_ns_ += kSecond;
    watched_ns_ += kSecond / 100 * static_cast<uint64_t>(watched);
    busy_ns_ += kSecond / 100 * static_cast<uint64_t>(reported);
    other_ns_ += kSecond;
    audit_.Hear({now_ns_, {{1, 0, watched_ns_, busy_ns_}, {2, 0, other_ns_, other_ns_}}},
                [&](uint64_t session, uint32_t) { return AuditedWorker{.may_have_backlog = session == 1 && backlog_}; });
    ProcessFigures figures{true, {{2, 0, other_seen_}}};
    if (seen != kNotSeen) figures.list.push_back({1, 0, static_cast<uint32_t>(seen)});
    const std::vector<Audit::Finding> findings = audit_.Compare(figures);
    if (!findings.empty()) found_ = findings[0];
    return findings.size();
  }
  size_t Pass(int seconds, int reported, int seen, int watched) {
    size_t found = 0;
    for (int i = 0; i < seconds; ++i) found += Pass(reported, seen, watched);
    return found;
  }
  // The first message and the first figure.
  void Begin() { ASSERT_EQ(Pass(2, 0, 0, 100), 0u); }

  Audit audit_;
  Audit::Finding found_{};
  bool backlog_ = false;
  uint32_t other_seen_ = 90;
  uint64_t now_ns_ = 100 * kSecond;
  uint64_t watched_ns_ = 0;
  uint64_t busy_ns_ = 0;
  uint64_t other_ns_ = 0;
};

TEST_F(AuditTest, WhoReportsNothingIsFoundOnceInTheThirdSecondOfTheCompared) {
  EXPECT_EQ(Pass(2, 0, 80, 100), 0u);  // the first message, and the first figure
  EXPECT_EQ(Pass(2, 0, 80, 100), 0u);
  EXPECT_EQ(Pass(0, 80), 1u);
  EXPECT_EQ(found_.session, 1u);
  EXPECT_EQ(found_.device, 0u);
  EXPECT_DOUBLE_EQ(found_.seconds, 3);
  EXPECT_DOUBLE_EQ(found_.seen_percent, 80);
  EXPECT_DOUBLE_EQ(found_.reported_percent, 0);
  EXPECT_EQ(Pass(20, 0, 80, 100), 0u);
  EXPECT_EQ(audit_.found(0), 1u);
  EXPECT_EQ(audit_.found(1), 0u);
}

TEST_F(AuditTest, OfWhoReportsNothingSixPointsAreAllowed) {
  Begin();
  EXPECT_EQ(Pass(60, 0, 6, 100), 0u);
  EXPECT_EQ(Pass(5, 0, 8, 100), 1u);
}

TEST_F(AuditTest, WhatNvmlMayHaveWrongIsAllowedUntilItIsKnownBetter) {
  Begin();
  EXPECT_EQ(Pass(30, 30, 41, 100), 0u);  // six samples a second, each all or nothing
  EXPECT_EQ(Pass(15, 30, 41, 100), 1u);  // they are not: so many seconds were even
}

TEST_F(AuditTest, WhatIsEvenAndMayBeOfWholeSamplesTeachesNothing) {
  Begin();
  other_seen_ = 83;
  EXPECT_EQ(Pass(300, 20, 50, 100), 0u);
}

TEST_F(AuditTest, WhoReportsAPartOfTheSecondsIsFound) {
  Begin();
  size_t found = 0;
  for (int i = 0; i < 10; ++i) found += Pass(i % 3 == 0 ? 100 : 0, 100);
  EXPECT_EQ(found, 0u);  // as one whose load comes and goes, where NVML is late
  for (int i = 0; i < 30; ++i) found += Pass(i % 3 == 0 ? 20 : 0, 100);
  EXPECT_EQ(found, 1u);
}

TEST_F(AuditTest, FiguresThatAreLateAccuseNobody) {
  Begin();
  // Busy for five seconds, idle for five: NVML says so a second and two later.
  for (int i = 0; i < 60; ++i) {
    const auto busy = [](int second) { return second >= 0 && second / 5 % 2 == 0 ? 100 : 0; };
    EXPECT_EQ(Pass(busy(i), busy(i - 2)), 0u) << i;
  }
}

TEST_F(AuditTest, WhoReportsMoreThanItUsesIsNotFound) {
  Begin();
  EXPECT_EQ(Pass(30, 100, 0, 100), 0u);
}

TEST_F(AuditTest, WhatWasQueuedWhileTheGpuWasFreeIsNobodysToReport) {
  backlog_ = true;
  EXPECT_EQ(Pass(7, 0, 100, 100), 0u);
  backlog_ = false;  // it has all run
  EXPECT_EQ(Pass(0, 100), 0u);
  EXPECT_EQ(Pass(20, 0, 0, 100), 0u);
}

TEST_F(AuditTest, WhatIsSaidToHaveBeenQueuedEndsAtSomeTime) {
  backlog_ = true;
  EXPECT_EQ(Pass(1 + static_cast<int>(Audit::kBacklogMaxNs / kSecond) + 1, 0, 100, 100), 0u);
  EXPECT_EQ(Pass(3, 0, 100, 100), 1u);
}

TEST_F(AuditTest, WhatIsNotWatchedIsNotCompared) {
  Begin();
  EXPECT_EQ(Pass(60, 0, 100, 80), 0u);
}

TEST_F(AuditTest, AnotherBrokerCountsFromItsStart) {
  Begin();
  EXPECT_EQ(Pass(2, 0, 80, 100), 0u);
  watched_ns_ = busy_ns_ = other_ns_ = 0;
  EXPECT_EQ(Pass(0, 80), 0u);
  EXPECT_EQ(Pass(3, 0, 80, 100), 0u);
  EXPECT_EQ(Pass(0, 80), 1u);
}

TEST_F(AuditTest, FiguresThatCameTooLateAreNotCompared) {
  Begin();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Pass(2, 0, 80, 100), 0u);
    audit_.Skip();
  }
}

TEST_F(AuditTest, WordsOfTheBrokerThatAreTooCloseAreNotCompared) {
  Begin();
  for (int i = 0; i < 30; ++i) {
    now_ns_ -= kSecond - kSecond / 10;
    watched_ns_ -= kSecond - kSecond / 10;
    EXPECT_EQ(Pass(0, 100), 0u);
  }
}

TEST_F(AuditTest, MoreThanAllOfTheTimeIsNoFigure) {
  Begin();
  EXPECT_EQ(Pass(30, 0, 4'000, 100), 0u);
}

TEST_F(AuditTest, ASessionThatHasLeftIsForgotten) {
  Begin();
  EXPECT_EQ(Pass(5, 0, 80, 100), 1u);
  audit_.Hear({now_ns_ += kSecond, {}}, NobodyIsAsked);
  EXPECT_TRUE(audit_.Compare({true, {{1, 0, 80}}}).empty());
  EXPECT_EQ(audit_.found(0), 1u);
}

TEST_F(AuditTest, ItIsBlindWhereNobodyTells) {
  const auto hear = [&](const ProcessFigures& figures) {
    now_ns_ += kSecond;
    other_ns_ += kSecond;
    audit_.Hear({now_ns_, {{2, 0, other_ns_, other_ns_}}}, NobodyIsAsked);
    EXPECT_TRUE(audit_.Compare(figures).empty());
  };
  for (uint32_t i = 0; i < Audit::kBlindAfter; ++i) {
    EXPECT_EQ(audit_.blind(), nullptr);
    hear({false, {}});
  }
  EXPECT_NE(audit_.blind(), nullptr);
  // It tells, but of nobody here, though one is busy all the time; until it does.
  for (uint32_t i = 0; i < Audit::kBlindAfter; ++i) hear({true, {}});
  EXPECT_NE(audit_.blind(), nullptr);
  // Nor does it tell of time when it knows memory alone.
  hear({true, {{2, 0, ProcessFigures::kUnknownPercent, 5}}});
  EXPECT_NE(audit_.blind(), nullptr);
  hear({true, {{2, 0, 90}}});
  EXPECT_EQ(audit_.blind(), nullptr);
  for (int i = 0; i < 30; ++i) hear({true, {}});
  EXPECT_EQ(audit_.blind(), nullptr);
}

TEST(ProcessFigures, ComeThrough) {
  Encoder out;
  ProcessFigures{true, {{7, 1, 63, 99}, {8, 0, ProcessFigures::kUnknownPercent, ProcessFigures::kUnknownBytes}}}.Encode(out);
  Result<ProcessFigures> figures = ProcessFigures::Decode(out.bytes());
  ASSERT_TRUE(figures.ok());
  EXPECT_TRUE(figures->told);
  ASSERT_EQ(figures->list.size(), 2u);
  EXPECT_EQ(figures->list[0].session, 7u);
  EXPECT_EQ(figures->list[0].sm_percent, 63u);
  EXPECT_EQ(figures->list[0].used_bytes, 99u);
  EXPECT_EQ(figures->list[1].sm_percent, ProcessFigures::kUnknownPercent);
  EXPECT_FALSE(ProcessFigures::Decode(out.bytes().first(out.bytes().size() - 1)).ok());
}

}  // namespace
}  // namespace tessera
