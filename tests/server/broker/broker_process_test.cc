// tessera-broker as users have it, in real time: the test is the daemon, and workers are threads that sleep.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/server/broker/broker_process.h"
#include "tests/server/broker/sleeping_worker.h"

namespace tessera {
namespace {

constexpr const char* kSeventyThirty =
    "[[vgpu]]\nname='a'\nrequest=0.7\n"
    "[[vgpu]]\nname='b'\nrequest=0.3\n";

void Sleep(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

template <typename Condition>
bool Becomes(const Condition& condition) {
  for (int i = 0; i < 4'000; ++i) {
    if (condition()) return true;
    Sleep(5);
  }
  return condition();
}

double ShareOf(SleepingWorker& one, SleepingWorker& other, int milliseconds) {
  const uint64_t one_ns = one.used_ns(), other_ns = other.used_ns();
  Sleep(milliseconds);
  const double used = static_cast<double>(one.used_ns() - one_ns);
  return used / (used + static_cast<double>(other.used_ns() - other_ns));
}

TEST(BrokerProcess, SharesKillAndRestart) {
  const std::vector<std::string> options = {"--default", "none"};
  auto broker = std::make_unique<BrokerProcess>(options);
  EXPECT_EQ(broker->Next<ReadyMessage>().release, TESSERA_VERSION);
  ASSERT_EQ(broker->TakeFile(kSeventyThirty).code, StatusCode::kOk);
  SleepingWorker a, b;
  broker->Send(CameMessage{1, 1, "a"}, a.Fds());
  broker->Send(CameMessage{2, 1, "b"}, b.Fds());
  Sleep(500);
  const uint64_t cpu_ns = broker->CpuNs();
  EXPECT_NEAR(ShareOf(a, b, 2'000), 0.7, 0.03);
  std::printf("two metered tenants: %.1f %% of a core\n", static_cast<double>(broker->CpuNs() - cpu_ns) / 2e7);

  // Another one goes on from what the daemon says again.
  EXPECT_EQ(broker->End(SIGKILL), -1);
  const uint64_t alive_ns = a.pages().gate().alive_ns;
  broker = std::make_unique<BrokerProcess>(options);
  ASSERT_EQ(broker->TakeFile(kSeventyThirty).code, StatusCode::kOk);
  broker->Send(CameMessage{1, 1, "a"}, a.Fds());
  broker->Send(CameMessage{2, 1, "b"}, b.Fds());
  Sleep(500);
  EXPECT_GT(a.pages().gate().alive_ns, alive_ns);
  EXPECT_NEAR(ShareOf(a, b, 1'000), 0.7, 0.06);

  // The other one has the GPU to itself, though the daemon has said nothing yet.
  a.Kill();
  EXPECT_TRUE(Becomes([&] { return b.pages().Word().mode == GateMode::kFree; }));
}

TEST(BrokerProcess, IdleSessionsCostNothingToSpeakOf) {
  BrokerProcess broker({"--default", "none"});
  ASSERT_EQ(broker.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  const TestProcess process;
  std::vector<TestPages> pages(64);
  for (size_t i = 0; i < pages.size(); ++i) {
    broker.Send(CameMessage{i, 1, i % 2 == 0 ? "a" : "b"}, pages[i].Fds(process));
  }
  ASSERT_TRUE(Becomes([&] { return pages.back().Word().mode == GateMode::kArmed; }));
  Sleep(1'100);
  const uint64_t cpu_ns = broker.CpuNs();
  Sleep(1'000);
  const double percent = static_cast<double>(broker.CpuNs() - cpu_ns) / 1e7;
  std::printf("64 idle sessions: %.2f %% of a core\n", percent);
  EXPECT_LE(percent, 15);  // under a sanitizer; else less than 1
}

TEST(BrokerProcess, AnEventfdThatNeverStopsCostsLittle) {
  BrokerProcess broker({"--default", "none"});
  ASSERT_EQ(broker.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  const TestProcess process;
  TestPages a, b;
  broker.Send(CameMessage{1, 1, "a"}, a.Fds(process));
  broker.Send(CameMessage{2, 1, "b"}, b.Fds(process));
  a.report().executed = b.report().executed = 1;
  const uint64_t cpu_ns = broker.CpuNs();
  const uint64_t begin_ns = MonotonicNs();
  while (MonotonicNs() - begin_ns < 300'000'000) a.Ring();
  const double percent = static_cast<double>(broker.CpuNs() - cpu_ns) * 100 / static_cast<double>(MonotonicNs() - begin_ns);
  std::printf("rings without end: %.0f %% of a core\n", percent);
  EXPECT_LE(percent, 60);  // the same; else some 10
  broker.Send(AskMessage{1, "b", "uid:0"});
  EXPECT_EQ(broker.Next<AskAnswer>().code, StatusCode::kOk);
}

TEST(BrokerProcess, EndsAsItsReadmeSays) {
  {
    BrokerProcess broker;
    broker.Next<ReadyMessage>();
    EXPECT_EQ(broker.End(SIGTERM), 0);
  }
  {
    BrokerProcess broker;
    broker.Next<ReadyMessage>();
    broker.HangUp();
    EXPECT_EQ(broker.End(0), 0);
  }
  {
    BrokerProcess broker;
    broker.Send(AliveMessage());
    EXPECT_EQ(broker.End(0), 1);
  }
  EXPECT_EQ(BrokerProcess({"--policy", "7=fair"}).End(0), 2);
  EXPECT_EQ(BrokerProcess({"--policy", "lottery"}).End(0), 2);
  EXPECT_EQ(BrokerProcess({"--record", "/no/such/directory/trace"}).End(0), 1);
}

}  // namespace
}  // namespace tessera
