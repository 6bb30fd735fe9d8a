#include "server/gate/gate_page.h"

#include <gtest/gtest.h>

#include <random>

#include "server/gate/report_page.h"

namespace tessera {
namespace {

TEST(GateWord, ComesBackAsItWasPacked) {
  for (const GateMode mode : {GateMode::kFree, GateMode::kArmed, GateMode::kMetered}) {
    for (const bool next : {false, true}) {
      for (const uint64_t open_until_ns : {uint64_t{0}, uint64_t{16}, uint64_t{123'456'789'008}, UINT64_MAX - 15}) {
        const GateWord word = GateWord::Of(GateWord{mode, next, open_until_ns}.Pack());
        EXPECT_EQ(word.mode, mode);
        EXPECT_EQ(word.next, next);
        EXPECT_EQ(word.open_until_ns, open_until_ns);
      }
    }
  }
}

TEST(GateWord, TimesAreRoundedDown) {
  EXPECT_EQ(GateWord::Of(GateWord{GateMode::kMetered, true, 31}.Pack()).open_until_ns, 16u);
  EXPECT_EQ(GateWord::Of(GateWord{GateMode::kMetered, false, 15}.Pack()).open_until_ns, 0u);
}

TEST(GateWord, AnyWordIsOne) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t word = random();
    const GateWord gate = GateWord::Of(word);
    EXPECT_LE(gate.mode, GateMode::kEnded);
    EXPECT_TRUE((word & 7) <= 3 || gate.mode == GateMode::kMetered);
    EXPECT_LE(gate.open_until_ns, word);
  }
}

TEST(GateWord, ZeroIsFree) {
  EXPECT_EQ(GateWord::Of(0).mode, GateMode::kFree);
  EXPECT_EQ(GateWord().Pack(), 0u);
}

TEST(Pages, HaveTheirSizes) {
  EXPECT_LE(sizeof(GatePage), 4096u);
  EXPECT_EQ(kReportFileBytes % 4096, 0u);
  EXPECT_GE(kReportFileBytes, sizeof(ReportPage));
}

}  // namespace
}  // namespace tessera
