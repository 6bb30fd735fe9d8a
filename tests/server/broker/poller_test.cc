#include "server/broker/poller.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "protocol/base/clock.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

int64_t Now() { return static_cast<int64_t>(MonotonicNs()); }

// Both ways to wait.
class PollerTest : public testing::TestWithParam<std::span<const Poller::Event> (Poller::*)(int64_t)> {
 protected:
  std::span<const Poller::Event> Wait(int64_t until_ns) { return (poller_.*GetParam())(until_ns); }
  Poller poller_ = Poller::Make().value();
};

TEST_P(PollerTest, EndsAtItsTimeWithoutEvents) {
  const int64_t until_ns = Now() + 3 * kMs;
  EXPECT_TRUE(Wait(until_ns).empty());
  EXPECT_GE(Now(), until_ns);
}

TEST_P(PollerTest, EachWriteToARingIsAnEvent) {
  const UniqueFd ring(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  ASSERT_TRUE(poller_.Add(ring.get(), Poller::Source::kRing, 7).ok());
  const uint64_t one = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(ring.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    const auto events = Wait(Now() + 10'000 * kMs);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].source, Poller::Source::kRing);
    EXPECT_EQ(events[0].session, 7u);
    EXPECT_TRUE(Wait(Now() + kMs).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, PollerTest, testing::Values(&Poller::Wait, &Poller::WaitAwake),
                         [](const auto& info) { return info.index == 0 ? "Asleep" : "Awake"; });

}  // namespace
}  // namespace tessera
