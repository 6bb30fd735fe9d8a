// A placer that is killed at each operation of its store, before it counted and after.
#include <gtest/gtest.h>

#include "protocol/base/log.h"
#include "tests/netaware/service/deadly_pool.h"

namespace tessera {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRequests = 200;  // by which all is slower
#else
constexpr int kRequests = 1'000;
#endif
constexpr int kSeeds = 4;

TEST(PlacerDeaths, NoGrantThatAJobWasToldOfIsLostAndNoneIsGivenTwice) {
  SetLogLevel(LogLevel::kOff);
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DeadlyPool pool(seed);
    int new_jobs = kRequests / kSeeds;
    for (int step = 0; new_jobs > 0 || !pool.IsIdle(); ++step) {
      ASSERT_LT(step, 200'000) << "it does not come to an end";
      pool.Step(&new_jobs);
      pool.Check();
      if (HasFatalFailure()) FAIL() << "step " << step;
    }
    pool.CheckEmpty();
    // Some jobs hang up before they get their answer. Each grant is stored and removed, and the placer died of each twice.
    EXPECT_GT(pool.granted(), kRequests / kSeeds * 7 / 10);
    EXPECT_GE(pool.deaths(), 4 * pool.granted() - pool.granted() / 10);
  }
}

}  // namespace
}  // namespace tessera
