#include "scheduler/simulate/load.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

TEST(LoadTest, ReadsEveryField) {
  const Result<std::vector<Load>> loads = ParseLoads(
      "tessera-load 1\n# a comment\n\ntrain\n"
      "infer request=0.3 limit=0.5 priority=protected sessions=2 begin=1s end=2.5s kernel=20us burst=4ms rest=50ms chance=1\n");
  ASSERT_TRUE(loads.ok()) << loads.status().message();
  ASSERT_EQ(loads.value().size(), 2u);
  const Load& infer = loads.value()[1];
  EXPECT_EQ(infer.spec, (VgpuSpec{.name = "infer", .request = 0.3, .limit = 0.5, .priority = Priority::kProtected}));
  EXPECT_EQ(infer.sessions, 2u);
  EXPECT_EQ(infer.begin_ns, kSecondNs);
  EXPECT_EQ(infer.end_ns, 2'500'000'000);
  EXPECT_EQ(infer.kernel_ns, 20'000);
  EXPECT_EQ(infer.burst_ns, 4'000'000);
  EXPECT_EQ(infer.rest_ns, 50'000'000);
  EXPECT_TRUE(infer.chance);
}

TEST(LoadTest, SaysWhatIsWrongOnWhichLine) {
  const auto message = [](const std::string& text) { return ParseLoads(text).status().message(); };
  const std::string head = "tessera-load 1\n";
  EXPECT_EQ(message("a request=1\n"), "line 1: 'a request=1' is not 'tessera-load 1', with which a load begins");
  EXPECT_EQ(ParseLoads("tessera-load 9\n").status().code(), StatusCode::kVersionMismatch);
  EXPECT_EQ(message(head), "it has no line for a vGPU");
  EXPECT_EQ(message(head + "a"), "line 2: the file was cut off: the last line has no end");
  for (const std::string field : {"speed=1", "request", "kernel=5", "kernel=0us", "kernel=-1ms", "rest=1e300s", "sessions=0",
                                  "chance=2", "priority=low", "request=0.1x", "burst=nans"}) {
    EXPECT_TRUE(message(head + "a " + field + "\n").starts_with("line 2: '" + field + "' is none of NAME"))
        << field << message(head + "a " + field + "\n");
  }
  EXPECT_EQ(message(head + "a request=0.5 limit=0.25\n"), "line 2: vGPU 'a': limit 0.25 is 0.25 below the request 0.5");
  EXPECT_EQ(message(head + "a begin=2s end=1s\n"), "line 2: its end is not behind its beginning");
}

}  // namespace
}  // namespace tessera
