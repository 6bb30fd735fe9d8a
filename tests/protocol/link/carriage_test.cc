// A session over tessera-agent and tessera-gateway whose carrying processes are killed at any moment, hundreds of times: every
// byte and every record arrives, once and in order.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "protocol/base/start_program.h"
#include "protocol/keeper/keeper.h"
#include "tests/protocol/link/exchange_rounds.h"

namespace tessera {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kLess = 10;
constexpr uint64_t kBeginsNs = 1'500'000'000;  // the longest time from a carrier's start until its keeper counts its life
#else
constexpr int kLess = 1;
constexpr uint64_t kBeginsNs = 200'000'000;
#endif

// A process that was started for the test, and ends with it.
class Started {
 public:
  Started(const char* program, const std::vector<std::string>& arguments, const std::vector<int>& passed)
      : pid_(StartProgram(program, program, arguments, passed).value()) {}
  ~Started() { EXPECT_EQ(End(), 0); }
  // The exit code.
  int End() {
    if (pid_ < 0) return 0;
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The process that carries the sessions of this one; 0: there is none just now.
  pid_t Carrier() const {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    // An agent has a process besides, which connects.
    for (pid_t child = 0; children >> child;) {
      std::string words;
      std::getline(std::ifstream("/proc/" + std::to_string(child) + "/cmdline"), words);
      if (child != killed_ && words.find("--carry-fd") != std::string::npos) return child;
    }
    return 0;
  }
  // Kills it. False: there is none.
  bool KillCarrier() {
    const pid_t carrier = Carrier();
    if (carrier == 0 || kill(carrier, SIGKILL) != 0) return false;
    killed_ = carrier;
    return true;
  }

 private:
  pid_t pid_;
  pid_t killed_ = -1;  // the last one
};

// A program's end of a channel and a server's, on "two hosts".
class TwoHosts {
 public:
  TwoHosts() {
    char name[] = "/tmp/tessera-restart-XXXXXX";
    directory_ = mkdtemp(name);
    server_socket_ = std::make_unique<UnixListener>(UnixListener::Bind(directory_ + "/server.sock").value());
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    gateway_ = std::make_unique<Started>(
        GATEWAY_PATH,
        std::vector<std::string>{"--listen", "tcp://127.0.0.1:0", "--server", "unix:" + directory_ + "/server.sock",
                                 "--parent-pid", std::to_string(getpid()), "--ready-fd", std::to_string(kPassedFd)},
        std::vector<int>{ready[1]});
    close(ready[1]);
    char url[256] = {};
    EXPECT_GT(read(ready[0], url, sizeof(url) - 1), 0);
    close(ready[0]);
    url[strcspn(url, "\n")] = '\0';  // what follows is who may connect
    const std::string agent = directory_ + "/agent.sock";
    agent_ = std::make_unique<Started>(AGENT_PATH, std::vector<std::string>{"--listen", "unix:" + agent, "--server", url},
                                       std::vector<int>{});
    Result<UniqueFd> socket = ConnectUnix(agent);
    for (const uint64_t deadline_ns = Soon(); !socket.ok() && MonotonicNs() < deadline_ns; socket = ConnectUnix(agent))
      std::this_thread::yield();
    std::thread serving([this] {
      Result<UniqueFd> connection = server_socket_->Accept();
      for (; !connection.ok(); connection = server_socket_->Accept()) std::this_thread::yield();
      server_ = ServeOne(std::move(*connection)).value();
    });
    ClientHello hello = TestHello();
    hello.sizes.staging_bytes = ExchangeRounds::kStagingBytes;
    ServerWelcome welcome;
    client_ = Channel::Attach(std::move(socket.value()), hello, &welcome, Soon()).value();
    serving.join();
  }
  ~TwoHosts() {
    client_->Leave();
    agent_.reset();
    gateway_.reset();
    server_socket_.reset();
    std::filesystem::remove_all(directory_);
  }

  Channel& client() { return *client_; }
  Channel& server() { return *server_; }
  Started& agent() { return *agent_; }
  Started& gateway() { return *gateway_; }

 private:
  std::string directory_;
  std::unique_ptr<UnixListener> server_socket_;
  std::unique_ptr<Started> gateway_, agent_;
  std::unique_ptr<Channel> client_, server_;
};

// Kills at random until it goes.
class Killer {
 public:
  Killer(TwoHosts& hosts, uint32_t seed) : thread_([this, &hosts, seed] { Run(hosts, seed); }) {}
  ~Killer() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int kills() const { return kills_; }

 private:
  void Run(TwoHosts& hosts, uint32_t seed) {
    std::minstd_rand random(seed);
    for (int i = 1; !stop_; ++i) {
      const uint32_t which = random() % 8;
      if (which != 0) kills_ += hosts.agent().KillCarrier() ? 1 : 0;
      if (which < 4) kills_ += hosts.gateway().KillCarrier() ? 1 : 0;
      // Some live long enough that the keeper has hopes of the next.
      const bool long_life = i % (Keeper::kEndsMax / 2) == 0;
      while (long_life && !stop_ && (hosts.agent().Carrier() == 0 || hosts.gateway().Carrier() == 0))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const uint64_t lives_ns = long_life ? Keeper::kLivedNs + kBeginsNs : 10'000'000 + random() % 90'000'000;
      std::this_thread::sleep_for(std::chrono::nanoseconds(lives_ns));
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<int> kills_{0};
  std::thread thread_;
};

void ExchangeUnderKills(uint64_t bytes_max, uint64_t segment_every, int kills, uint32_t seed) {
  TwoHosts hosts;
  ASSERT_NO_FATAL_FAILURE(ExchangeRounds(hosts.client(), hosts.server()).Run(1, 1, seed));  // who begins is not kept yet
  Killer killer(hosts, seed);
  while (killer.kills() < kills / kLess) {
    ASSERT_NO_FATAL_FAILURE(ExchangeRounds(hosts.client(), hosts.server(), segment_every).Run(200, bytes_max, seed));
  }
  killer.Stop();
}

TEST(Carriage, RangesOfSeveralFrames) { ExchangeUnderKills(ExchangeRounds::kHalfBytes, 5, 100, 1); }

// Little but messages of the socket: offers and ends of segments, both ways.
TEST(Carriage, Segments) { ExchangeUnderKills(3000, 1, 200, 2); }

TEST(Carriage, SmallRecords) { ExchangeUnderKills(200, 50, 100, 3); }

}  // namespace
}  // namespace tessera
