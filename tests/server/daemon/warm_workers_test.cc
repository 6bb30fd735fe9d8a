// Worker processes that wait for a session.
#include <signal.h>

#include <algorithm>

#include "protocol/channel/unix_socket.h"
#include "protocol/wire/handshake.h"
#include "server/daemon/session_demand.h"
#include "tests/server/daemon/daemon_fixture.h"

namespace tessera {
namespace {

class WarmWorkersTest : public DaemonTest {
 protected:
  std::vector<std::string> Warm(const std::string& count, std::vector<std::string> more = {}) const {
    return Arguments(std::move(more), count);
  }
  // As many as clients demand, on a device with room for all of them.
  std::vector<std::string> ByDemand(const char* device_mib = "131072") const {
    setenv("TESSERA_EMULATOR_MEMORY_MIB", device_mib, 1);
    return Arguments({}, "auto");
  }
  void TearDown() override {
    unsetenv("TESSERA_EMULATOR_MEMORY_MIB");
    DaemonTest::TearDown();
  }
  // Sessions that are open at the same time, and end at once.
  void BeginAtOnce(size_t count, const std::vector<std::string>& environment = {}) const {
    std::vector<UniqueFd> clients;
    for (size_t i = 0; i < count; ++i) clients.push_back(SayHelloTo(path_, environment));
    for (UniqueFd& client : clients) EXPECT_TRUE(Welcomed(std::move(client)).valid());
  }
  // Whether so many processes wait and no session is open, for some time; within `longest_ns`.
  static bool Settles(const DaemonProcess& daemon, size_t waiting, uint64_t longest_ns = 10'000'000'000) {
    const uint64_t deadline_ns = MonotonicNs() + longest_ns;
    for (int calm = 0; calm < 50 && MonotonicNs() < deadline_ns; usleep(10'000))
      calm = daemon.Children().size() == waiting ? calm + 1 : 0;
    return daemon.Children().size() == waiting;
  }
  // How many of these processes got a session.
  static long ServedBy(DaemonProcess& daemon, const std::vector<pid_t>& pids) {
    return std::count_if(pids.begin(), pids.end(),
                         [&](pid_t pid) { return daemon.WaitForLog("worker pid " + std::to_string(pid) + ",", 100); });
  }
  // A client that was welcomed; invalid when the server did not.
  UniqueFd Begin(const std::vector<std::string>& environment = {}) const { return Welcomed(SayHelloTo(path_, environment)); }
  static UniqueFd Welcomed(UniqueFd client) {
    if (!client.valid()) return {};
    const Result<SocketMessage> answer = ReceiveMessage(client.get(), kControlMessageBytesMax, MonotonicNs() + 20'000'000'000);
    const bool welcome = answer.ok() && ControlKindOf(answer.value().bytes) == ControlKind::kServerWelcome;
    return welcome ? std::move(client) : UniqueFd();
  }
  static bool Contains(const std::vector<pid_t>& pids, pid_t pid) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
  }
};

TEST_F(WarmWorkersTest, AClientGetsTheProcessThatWaitedAndAnotherTakesItsPlace) {
  DaemonProcess daemon(Warm("1"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  const std::vector<pid_t> waiting = WaitForChildren(daemon, 1);
  ASSERT_EQ(waiting.size(), 1u);
  const UniqueFd client = Begin();
  ASSERT_TRUE(client.valid()) << daemon.log();
  EXPECT_TRUE(daemon.WaitForLog("worker pid " + std::to_string(waiting[0]))) << daemon.log();
  EXPECT_TRUE(Contains(WaitForChildren(daemon, 2), waiting[0]));
}

TEST_F(WarmWorkersTest, AnotherEnvironmentGetsAProcessOfItsOwnAndSoDoesTheNextOfItsKind) {
  DaemonProcess daemon(Warm("1"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  const pid_t first = WaitForChildren(daemon, 1).at(0);
  const UniqueFd client = Begin({"CUDA_DEVICE_MAX_CONNECTIONS=1"});
  ASSERT_TRUE(client.valid()) << daemon.log();
  ASSERT_TRUE(daemon.WaitForLog("session 2 opened")) << daemon.log();
  EXPECT_FALSE(Contains(WaitForChildren(daemon, 1), first)) << "what waited for others is of no use any more";

  std::vector<pid_t> children = WaitForChildren(daemon, 2);
  ASSERT_EQ(children.size(), 2u);
  const UniqueFd like_it = Begin({"CUDA_DEVICE_MAX_CONNECTIONS=1"});
  ASSERT_TRUE(daemon.WaitForLog("session 3 opened")) << daemon.log();
  EXPECT_TRUE(daemon.log().find("worker pid " + std::to_string(children[0]) + ", 2 sessions") != std::string::npos ||
              daemon.log().find("worker pid " + std::to_string(children[1]) + ", 2 sessions") != std::string::npos)
      << daemon.log();
}

TEST_F(WarmWorkersTest, SessionsThatFollowEachOtherQuicklyFindAProcessEachTime) {
  DaemonProcess daemon(Warm("1"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  for (int i = 0; i < 8; ++i) {
    const std::vector<pid_t> waiting = WaitForChildren(daemon, 1);
    ASSERT_EQ(waiting.size(), 1u) << "a session ended, and no other came in the pause that one leaves: " << daemon.log();
    BeginAtOnce(1);
    ASSERT_TRUE(daemon.WaitForLog("worker pid " + std::to_string(waiting[0]) + ", 1 sessions")) << daemon.log();
    ASSERT_TRUE(daemon.WaitForLog("session " + std::to_string(i + 1) + " of pid")) << daemon.log();
  }
}

TEST_F(WarmWorkersTest, AsManyWaitAsShortSessionsBeginAtOnce) {
  DaemonProcess daemon(ByDemand());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  BeginAtOnce(4);
  ASSERT_TRUE(Settles(daemon, 4)) << daemon.log();
  const std::vector<pid_t> waiting = daemon.Children();
  BeginAtOnce(4);
  ASSERT_TRUE(Settles(daemon, 4)) << daemon.log();
  EXPECT_EQ(ServedBy(daemon, waiting), 4) << daemon.log();
}

TEST_F(WarmWorkersTest, NoMoreWaitForSessionsThatLast) {
  DaemonProcess daemon(ByDemand());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(Begin());
  EXPECT_TRUE(Settles(daemon, 5)) << "one waits beside four sessions: " << daemon.log();
}

TEST_F(WarmWorkersTest, NoMoreWaitThanTheDeviceHasRoomFor) {
  DaemonProcess daemon(ByDemand("16384"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  BeginAtOnce(8);
  EXPECT_TRUE(Settles(daemon, 3)) << daemon.log();
}

TEST_F(WarmWorkersTest, KindsOfShortSessionsHaveProcessesEach) {
  DaemonProcess daemon(ByDemand());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  BeginAtOnce(2, {"CUDA_DEVICE_MAX_CONNECTIONS=1"});
  BeginAtOnce(3, {"CUDA_DEVICE_MAX_CONNECTIONS=2"});
  ASSERT_TRUE(Settles(daemon, 5)) << daemon.log();
  const std::vector<pid_t> waiting = daemon.Children();
  BeginAtOnce(2, {"CUDA_DEVICE_MAX_CONNECTIONS=1"});
  ASSERT_TRUE(Settles(daemon, 5)) << daemon.log();
  EXPECT_EQ(ServedBy(daemon, waiting), 2) << daemon.log();
}

TEST_F(WarmWorkersTest, WithoutDemandOneWaitsAgain) {
  DaemonProcess daemon(ByDemand());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  BeginAtOnce(3);
  ASSERT_TRUE(Settles(daemon, 3)) << daemon.log();
  EXPECT_TRUE(Settles(daemon, 1, 2 * SessionDemand::kMemoryNs)) << daemon.log();
}

TEST_F(WarmWorkersTest, ANumberIsTakenAsItIs) {
  DaemonProcess daemon(Warm("0"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  BeginAtOnce(4);
  EXPECT_TRUE(Settles(daemon, 0)) << daemon.log();
  for (const char* wrong : {"17", "-1", "2x", "", "some"}) EXPECT_EQ(WEXITSTATUS(DaemonProcess(Warm(wrong)).Wait()), 2) << wrong;
}

TEST_F(WarmWorkersTest, VariablesThatNoDriverReadsMakeNoDifference) {
  DaemonProcess daemon(Warm("1"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  const UniqueFd client = Begin({"CUDA_CACHE_PATH=/somewhere"});
  ASSERT_TRUE(client.valid()) << daemon.log();
  EXPECT_TRUE(daemon.WaitForLog("session 1 opened")) << daemon.log();
}

TEST_F(WarmWorkersTest, TheDeathOfOneThatWaitsCostsNobodyASession) {
  DaemonProcess daemon(Warm("2"));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  const std::vector<pid_t> waiting = WaitForChildren(daemon, 2);
  ASSERT_EQ(waiting.size(), 2u);
  for (const pid_t pid : waiting) kill(pid, SIGKILL);
  for (const pid_t pid : waiting) {
    ASSERT_TRUE(daemon.WaitForLog("worker " + std::to_string(pid) + ", which waited for a session, was killed by signal 9"))
        << daemon.log();
  }
  const UniqueFd client = Begin();
  EXPECT_TRUE(client.valid()) << daemon.log();
}

TEST_F(WarmWorkersTest, TheyAreNoSessionsAndEndAtOnceWithTheDaemon) {
  DaemonProcess daemon(Warm("3", {"--max-sessions", "1", "--grace", "3600"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  ASSERT_EQ(WaitForChildren(daemon, 3).size(), 3u);
  {
    const UniqueFd client = Begin();
    ASSERT_TRUE(client.valid()) << daemon.log();
  }
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

}  // namespace
}  // namespace tessera
