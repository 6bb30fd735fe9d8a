#include "server/daemon/session_demand.h"

#include <gtest/gtest.h>

#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kNow = 1'000'000 * kMs;

TEST(SessionDemandTest, CountsWhatBeginsWithinTheSpan) {
  SessionDemand demand;
  EXPECT_EQ(demand.Peak(kNow, 300 * kMs), 0u);
  for (const uint64_t ms : {0, 100, 200, 1000, 1300, 1301}) demand.Note(kNow + ms * kMs, kNow + (ms + 50) * kMs);
  EXPECT_EQ(demand.Peak(kNow + 2000 * kMs, 300 * kMs), 3u);
  EXPECT_EQ(demand.Peak(kNow + 2000 * kMs, 99 * kMs), 2u);
  EXPECT_EQ(demand.Peak(kNow + 2000 * kMs, 2000 * kMs), 6u);
}

TEST(SessionDemandTest, SessionsEndInAnyOrder) {
  SessionDemand demand;
  demand.Note(kNow + 100 * kMs, kNow + 150 * kMs);
  demand.Note(kNow, kNow + 4000 * kMs);
  EXPECT_EQ(demand.Peak(kNow + 4000 * kMs, 100 * kMs), 2u);
  EXPECT_EQ(demand.next_ns(), kNow + SessionDemand::kMemoryNs);
}

TEST(SessionDemandTest, LongSessionsDoNotCount) {
  SessionDemand demand;
  demand.Note(kNow, kNow + SessionDemand::kShortNs + 1);
  EXPECT_EQ(demand.Peak(kNow + SessionDemand::kShortNs + 1, kMs), 0u);
  demand.Note(kNow, kNow + SessionDemand::kShortNs);
  EXPECT_EQ(demand.Peak(kNow + SessionDemand::kShortNs, kMs), 1u);
}

TEST(SessionDemandTest, ForgetsInTime) {
  SessionDemand demand;
  EXPECT_EQ(demand.next_ns(), kNoDeadline);
  demand.Note(kNow, kNow + kMs);
  demand.Note(kNow + 10 * kMs, kNow + 11 * kMs);
  EXPECT_EQ(demand.next_ns(), kNow + SessionDemand::kMemoryNs);
  EXPECT_EQ(demand.Peak(kNow + SessionDemand::kMemoryNs - 1, 20 * kMs), 2u);
  EXPECT_EQ(demand.Peak(kNow + SessionDemand::kMemoryNs, 20 * kMs), 1u);
  EXPECT_EQ(demand.next_ns(), kNow + 10 * kMs + SessionDemand::kMemoryNs);
  EXPECT_EQ(demand.Peak(kNow + 10 * kMs + SessionDemand::kMemoryNs, 20 * kMs), 0u);
  EXPECT_EQ(demand.next_ns(), kNoDeadline);
}

TEST(SessionDemandTest, IsBounded) {
  SessionDemand demand;
  for (uint64_t i = 0; i < 10'000; ++i) demand.Note(kNow + i, kNow + i);
  EXPECT_EQ(demand.Peak(kNow + 10'000, kMs), 256u);
}

}  // namespace
}  // namespace tessera
