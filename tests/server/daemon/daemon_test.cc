// tesserad as a process, on the software GPU.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/device_snapshot.h"
#include "server/daemon/children/exit_codes.h"
#include "tests/server/daemon/daemon_fixture.h"

namespace tessera {
namespace {

TEST_F(DaemonTest, SaysOneLineWhenReadyAndEndsWithSigterm) {
  DaemonProcess daemon(Arguments());
  const std::string line = daemon.ReadyLine();
  EXPECT_EQ(line.find("tesserad: listening on unix:" + path_ + ", devices: "), 0u) << line << daemon.log();
  EXPECT_NE(line.find(" ×"), std::string::npos) << line;
  EXPECT_NE(line.find(", driver 13.0"), std::string::npos) << line;
  daemon.Signal(SIGTERM);
  const int status = daemon.Wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kServiceOk);
  EXPECT_EQ(daemon.output(), line + "\n");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(DaemonTest, EndsWithSigintToo) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(DaemonTest, GivesEachClientAWorkerAndSurvivesTheDeathOfOne) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd first = SayHelloTo(path_);
  UniqueFd second = SayHelloTo(path_);
  ASSERT_TRUE(first.valid() && second.valid());
  std::vector<pid_t> workers = WaitForChildren(daemon, 2);
  ASSERT_EQ(workers.size(), 2u);
  ASSERT_TRUE(daemon.WaitForLog("session 2 opened"));

  kill(workers[0], SIGKILL);
  EXPECT_TRUE(daemon.WaitForLog("signal 9")) << daemon.log();
  EXPECT_EQ(WaitForChildren(daemon, 1), std::vector<pid_t>{workers[1]});
  // Exactly one of the two clients notices.
  EXPECT_TRUE(HangsUp(first.get()) || HangsUp(second.get()));
  EXPECT_FALSE(HangsUp(first.get(), 0) && HangsUp(second.get(), 0));
  UniqueFd third = SayHelloTo(path_);
  EXPECT_TRUE(daemon.WaitForLog("session 3 opened"));
}

TEST_F(DaemonTest, WorkersEndWithTheirClient) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd client = SayHelloTo(path_);
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  client.reset();
  EXPECT_TRUE(WaitForChildren(daemon, 0).empty());
}

TEST_F(DaemonTest, WorkersEndWithTheDaemon) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd client = SayHelloTo(path_);
  const std::vector<pid_t> workers = WaitForChildren(daemon, 1);
  ASSERT_EQ(workers.size(), 1u);
  daemon.Signal(SIGKILL);
  daemon.Wait();
  EXPECT_TRUE(HangsUp(client.get()));
}

TEST_F(DaemonTest, EndsSessionsAfterTheGracePeriod) {
  DaemonProcess daemon(Arguments({"--grace", "0"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd client = SayHelloTo(path_);
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_TRUE(HangsUp(client.get()));
}

TEST_F(DaemonTest, ASecondSignalSkipsTheGracePeriod) {
  DaemonProcess daemon(Arguments({"--grace", "3600"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd client = SayHelloTo(path_);
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(daemon.WaitForLog("no new sessions"));
  // Newcomers are told, and so is whoever asks.
  UniqueFd late = SayHelloTo(path_);
  const Result<SocketMessage> answer = ReceiveMessage(late.get(), kControlMessageBytesMax, MonotonicNs() + 5'000'000'000);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  Result<ServerRefusal> refusal = ServerRefusal::Decode(answer.value().bytes);
  ASSERT_TRUE(refusal.ok());
  EXPECT_NE(refusal->sentence.find("ending, 1 sessions left"), std::string::npos) << refusal->sentence;
  ServerQuery query;
  query.spec_hash = kSpecHash;
  Result<ServerReport> report = QueryServer(path_, query, MonotonicNs() + 5'000'000'000);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->ending);
  EXPECT_EQ(report->sessions, 1u);
  query.ask = ServerQuery::Ask::kBegin;
  EXPECT_EQ(QueryServer(path_, query, MonotonicNs() + 5'000'000'000).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(HangsUp(client.get(), 50));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(DaemonTest, TurnsAwayClientsBeyondTheLimit) {
  DaemonProcess daemon(Arguments({"--max-sessions", "1", "--start-wait", "0"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd first = SayHelloTo(path_);
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  UniqueFd second = SayHelloTo(path_);
  const Result<SocketMessage> answer = ReceiveMessage(second.get(), kControlMessageBytesMax, MonotonicNs() + 5'000'000'000);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const Result<ServerRefusal> refusal = ServerRefusal::Decode(answer.value().bytes);
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(refusal.value().code, StatusCode::kResourceExhausted);
  EXPECT_TRUE(HangsUp(second.get()));
  EXPECT_TRUE(daemon.WaitForLog("--max-sessions"));
  EXPECT_FALSE(HangsUp(first.get(), 0));
}

TEST_F(DaemonTest, WhoWaitsForAPlaceHasItInTheOrderOfArrival) {
  DaemonProcess daemon(Arguments({"--max-sessions", "1"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  UniqueFd first = SayHelloTo(path_);
  ASSERT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.ask = ServerQuery::Ask::kBegin;
  query.wait_ms = 20'000;
  const auto ask = [&] { return QueryServer(path_, query, MonotonicNs() + 30'000'000'000); };
  std::future<Result<ServerReport>> waits = std::async(std::launch::async, ask);
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  UniqueFd second = SayHelloTo(path_);  // behind it
  EXPECT_FALSE(HangsUp(second.get(), 100));
  first.reset();
  Result<ServerReport> report = waits.get();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->no_place, "");
  EXPECT_TRUE(daemon.WaitForLog("session 2 opened"));
  EXPECT_TRUE(daemon.WaitForLog("session 1 of pid " + std::to_string(getpid()) + " ended after"));
  EXPECT_TRUE(daemon.WaitForLog("its program ended without closing it"));
  // Whoever does not want to wait is told within two seconds.
  query.wait_ms = 0;
  const uint64_t began_ns = MonotonicNs();
  Result<ServerReport> full = ask();
  ASSERT_TRUE(full.ok()) << full.status().message();
  EXPECT_NE(full->no_place.find("its limit"), std::string::npos) << full->no_place;
  EXPECT_LT(MonotonicNs() - began_ns, 4'000'000'000u);
}

TEST_F(DaemonTest, RefusesASocketThatIsInUse) {
  DaemonProcess first(Arguments());
  ASSERT_NE(first.ReadyLine(), "") << first.log();
  DaemonProcess second(Arguments());
  const int status = second.Wait();
  EXPECT_EQ(WEXITSTATUS(status), kServiceCannotListen);
  EXPECT_NE(second.log().find("another server listens on " + path_), std::string::npos) << second.log();
  EXPECT_EQ(second.output(), "");
  EXPECT_TRUE(ConnectTo(path_).valid());
}

TEST_F(DaemonTest, AnswersAQueryWithoutAWorkerAndWithoutAWordInTheLog) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  for (int i = 0; i < 3; ++i) {
    ServerQuery query;
    query.spec_hash = kSpecHash;
    const Result<ServerReport> report = QueryServer(path_, query, MonotonicNs() + 5'000'000'000);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(CheckPeerVersion("server", report.value().wire_version, report.value().spec_hash, kSpecHash).ok());
    EXPECT_EQ(report.value().server.find("tesserad "), 0u);
    EXPECT_EQ(report.value().driver, "emulator");
    EXPECT_EQ(report.value().sessions, 0u);
    const Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.value().snapshot);
    ASSERT_TRUE(snapshot.ok());
    EXPECT_GE(snapshot.value().devices.size(), 1u);
    EXPECT_EQ(snapshot.value().driver_version, 13000);
  }
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_EQ(daemon.log().find(" opened"), std::string::npos) << daemon.log();
  EXPECT_EQ(daemon.log().find("warning"), std::string::npos) << daemon.log();
}

TEST_F(DaemonTest, AQueryOfAnotherVersionIsAnsweredToo) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  ServerQuery query;
  query.wire_version = kWireVersion + 1;
  const Result<ServerReport> report = QueryServer(path_, query, MonotonicNs() + 5'000'000'000);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report.value().wire_version, kWireVersion);
}

TEST_F(DaemonTest, SilentClientsGetNoWorkerAndDoNotKeepOthersWaiting) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(ConnectTo(path_));
  const UniqueFd client = SayHelloTo(path_);
  EXPECT_TRUE(daemon.WaitForLog("session 1 opened"));
  EXPECT_EQ(WaitForChildren(daemon, 1).size(), 1u);
  EXPECT_FALSE(HangsUp(silent.front().get(), 0));
}

TEST_F(DaemonTest, SomethingElseThanAHelloIsRefusedWithASentence) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  const UniqueFd client = ConnectTo(path_);
  ASSERT_EQ(send(client.get(), "GET / HTTP/1.1", 14, 0), 14);
  const Result<SocketMessage> answer = ReceiveMessage(client.get(), kControlMessageBytesMax, MonotonicNs() + 5'000'000'000);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const Result<ServerRefusal> refusal = ServerRefusal::Decode(answer.value().bytes);
  ASSERT_TRUE(refusal.ok());
  EXPECT_NE(refusal.value().sentence.find("hello"), std::string::npos);
  EXPECT_TRUE(daemon.Children().empty());
}

TEST_F(DaemonTest, EndsWithItsOwnerAndRemovesTheDirectory) {
  const std::string directory = directory_ + "/own";
  ASSERT_TRUE(std::filesystem::create_directory(directory));
  path_ = directory + "/socket";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // the read end is inherited; its hang-up is what a pidfd's readiness is
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  fcntl(write_end.get(), F_SETFD, FD_CLOEXEC);
  DaemonProcess daemon(Arguments({"--owner-fd", std::to_string(ends[0]), "--remove-directory", "--grace", "0"}));
  ASSERT_NE(daemon.ReadyLine(), "") << daemon.log();
  const UniqueFd client = SayHelloTo(path_);
  ASSERT_TRUE(client.valid());
  ASSERT_TRUE(daemon.WaitForLog("session 1 opened"));
  write_end.reset();
  EXPECT_TRUE(HangsUp(client.get()));
  const uint64_t deadline_ns = MonotonicNs() + 10'000'000'000;
  while (std::filesystem::exists(directory) && MonotonicNs() < deadline_ns) usleep(5000);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(DaemonTest, SaysWhyThereIsNoDevice) {
  DaemonProcess daemon({"--listen", "unix:" + path_, "--driver", directory_ + "/missing.so"});
  EXPECT_EQ(WEXITSTATUS(daemon.Wait()), kExitNoDevice);
  EXPECT_NE(daemon.log().find("missing.so"), std::string::npos) << daemon.log();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(DaemonTest, SaysWhatIsWrongWithTheCommandLine) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--listen"}, {"--listen", "tcp:1"}, {"--listen", "unix:" + path_, "--log", "loud"}, {"--no-such-option"}};
  for (const auto& arguments : wrong) {
    DaemonProcess daemon(arguments);
    EXPECT_EQ(WEXITSTATUS(daemon.Wait()), kServiceUsage);
    EXPECT_EQ(daemon.log().find("tesserad: "), 0u) << daemon.log();
    EXPECT_EQ(daemon.output(), "");
  }
}

TEST_F(DaemonTest, TellsItsVersionAndOptions) {
  DaemonProcess version({"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_EQ(version.output().find("tesserad "), 0u);
  DaemonProcess help({"--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_NE(help.output().find("--listen"), std::string::npos);
  EXPECT_EQ(help.output().find("--worker-fd"), std::string::npos);
}

}  // namespace
}  // namespace tessera
