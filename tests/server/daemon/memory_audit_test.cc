#include "server/daemon/readings/memory_audit.h"
#include "tests/support/sizes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr uint64_t kContext = 500 * kMiB;
constexpr uint64_t kFree = kContext + MemoryAudit::kMoreBytes;  // that a worker need not report

// Two sessions on GPU 0, of which 2 reports all that it uses.
class MemoryAuditTest : public testing::Test {
 protected:
  // A second in which worker 1 says that it holds `held`, and NVML that it uses `used`. How many were found.
  size_t Pass(uint64_t held, uint64_t used) {
    audit_.Hear({1, {{1, 0, 0, 0, held}, {2, 0, 0, 0, 3 * kMiB}}}, [&](uint64_t, uint32_t) { return worker_; });
    const std::vector<MemoryAudit::Finding> findings =
        audit_.Compare({true, {{1, 0, ProcessFigures::kUnknownPercent, used}, {2, 0, 50, 3 * kMiB + kContext}}});
    if (!findings.empty()) found_ = findings[0];
    return findings.size();
  }
  size_t Pass(int seconds, uint64_t held, uint64_t used) {
    size_t found = 0;
    for (int i = 0; i < seconds; ++i) found += Pass(held, used);
    return found;
  }

  AuditedWorker worker_{.is_limited = true};
  MemoryAudit audit_{{kContext}};
  MemoryAudit::Finding found_{};
};

TEST_F(MemoryAuditTest, WhoReportsTooLittleIsFoundOnceInTheFifthSecond) {
  EXPECT_EQ(Pass(4, 7, 8 + kFree), 0U);
  EXPECT_EQ(Pass(7, 8 + kFree), 1U);
  EXPECT_EQ(found_.session, 1U);
  EXPECT_EQ(found_.device, 0U);
  EXPECT_EQ(found_.used_bytes, 8 + kFree);
  EXPECT_EQ(found_.held_bytes, 7U);
  EXPECT_EQ(found_.beside_bytes, kContext);
  EXPECT_TRUE(found_.is_sure);
  EXPECT_EQ(Pass(20, 7, 8 + kFree), 0U);
  EXPECT_EQ(audit_.found(0), 1U);
  EXPECT_EQ(audit_.found(1), 0U);
}

TEST_F(MemoryAuditTest, AContextAndTheToleranceAreAllowed) { EXPECT_EQ(Pass(30, 7, 7 + kFree), 0U); }

TEST_F(MemoryAuditTest, OneGoodSecondEndsTheRow) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Pass(4, 0, 1 + kFree), 0U);
    EXPECT_EQ(Pass(0, kFree), 0U);
  }
  EXPECT_EQ(Pass(4, 0, 1 + kFree), 0U);
  EXPECT_EQ(Pass(0, ProcessFigures::kUnknownBytes), 0U);
  EXPECT_EQ(Pass(4, 0, 1 + kFree), 0U);
}

TEST_F(MemoryAuditTest, MemoryThatWasJustGivenBackAccusesNobody) {
  // Taken and given back again and again; NVML says so a second and two later.
  const auto held = [](int second) { return second >= 0 && second % 2 == 0 ? 8 * MemoryAudit::kMoreBytes : 0; };
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Pass(held(i), held(i - 1) + kContext), 0U) << i;
  for (int i = 30; i < 60; ++i) EXPECT_EQ(Pass(held(i), held(i - 2) + kContext), 0U) << i;
}

TEST_F(MemoryAuditTest, ASessionThatIsNotHeardForAWhileIsNotFoundAgain) {
  EXPECT_EQ(Pass(5, 0, 1 + kFree), 1U);
  audit_.Hear({2, {}}, [&](uint64_t, uint32_t) { return worker_; });  // the GPU was free
  EXPECT_TRUE(audit_.Compare({true, {{1, 0, 0, 1 + kFree}}}).empty());
  EXPECT_EQ(Pass(20, 0, 1 + kFree), 0U);
}

TEST_F(MemoryAuditTest, MoreThanThereCanBeIsNoOverflow) { EXPECT_EQ(Pass(20, UINT64_MAX, UINT64_MAX - 1), 0U); }

TEST_F(MemoryAuditTest, WhatTheWorkerSaysOfCodeIsAllowedInEachContext) {
  worker_.contexts = 2;  // the second one is in the ledger
  worker_.code_bytes = 100 * kMiB;
  EXPECT_EQ(Pass(30, 0, kFree + 200 * kMiB), 0U);
  EXPECT_EQ(Pass(5, 0, kFree + 200 * kMiB + 1), 1U);
  EXPECT_EQ(found_.beside_bytes, kContext + 200 * kMiB);
}

TEST_F(MemoryAuditTest, WhatItSaysHasABound) {
  worker_.contexts = UINT64_MAX;
  worker_.code_bytes = UINT64_MAX;
  EXPECT_EQ(Pass(30, 0, kFree + MemoryAudit::kBesideMax), 0U);
  EXPECT_EQ(Pass(5, 0, kFree + MemoryAudit::kBesideMax + 1), 1U);
}

TEST_F(MemoryAuditTest, WithoutALimitMoreIsAllowedAndNobodyIsEnded) {
  worker_.is_limited = false;
  EXPECT_EQ(Pass(30, 0, kContext + MemoryAudit::kUnlimitedMoreBytes), 0U);
  EXPECT_EQ(Pass(5, 0, kContext + MemoryAudit::kUnlimitedMoreBytes + 1), 1U);
  EXPECT_FALSE(found_.is_sure);
}

TEST_F(MemoryAuditTest, WhereNoContextWasMeasuredMoreIsAllowedAndNobodyIsEnded) {
  MemoryAudit audit({});
  std::vector<MemoryAudit::Finding> found;
  constexpr uint64_t kMore = MemoryAudit::kUnlimitedMoreBytes;
  for (int i = 0; i < 5; ++i) {
    audit.Hear({1, {{1, 3, 0, 0, 0}, {2, 3, 0, 0, 0}}}, [&](uint64_t, uint32_t) { return worker_; });
    for (const auto& one : audit.Compare({true, {{1, 3, 0, kMore}, {2, 3, 0, kMore + 1}}})) found.push_back(one);
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].is_sure);
  EXPECT_EQ(audit.found(3), 1U);
}

}  // namespace
}  // namespace tessera
