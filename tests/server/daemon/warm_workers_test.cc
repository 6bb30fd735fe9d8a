// Worker processes that wait for a session.
#include <signal.h>

#include <algorithm>

#include "protocol/channel/unix_socket.h"
#include "protocol/wire/handshake.h"
#include "tests/server/daemon/daemon_fixture.h"

namespace tessera {
namespace {

class WarmWorkersTest : public DaemonTest {
 protected:
  std::vector<std::string> Warm(const std::string& count, std::vector<std::string> more = {}) const {
    return Arguments(std::move(more), count);
  }
  // A client that was welcomed; invalid when the server did not.
  UniqueFd Begin(const std::vector<std::string>& environment = {}) const {
    UniqueFd client = SayHelloTo(path_, environment);
    if (!client.valid()) return {};
    const Result<SocketMessage> answer = ReceiveMessage(client.get(), kControlMessageBytesMax, MonotonicNs() + 20'000'000'000);
    const bool welcome = answer.ok() && ControlKindOf(answer.value().bytes) == ControlKind::kServerWelcome;
    return welcome ? std::move(client) : UniqueFd();
  }
  static bool Contains(const std::vector<pid_t>& pids, pid_t pid) { return std::find(pids.begin(), pids.end(), pid) != pids.end(); }
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
