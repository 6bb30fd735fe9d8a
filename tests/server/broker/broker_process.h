// tessera-broker as a process, with a daemon that is a test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/start_program.h"
#include "tests/server/broker/test_pages.h"

namespace tessera {

class BrokerProcess {
 public:
  static constexpr uint64_t kAnswerNs = 20'000'000'000;  // on a machine that has much else to do

  // `passed`: becomes kPassedFd + 1. `is_told`: it takes calls at once.
  explicit BrokerProcess(const std::vector<std::string>& options = {}, size_t gpus = 1, int passed = -1, bool is_told = true) {
    auto pair = MakeSocketPair();
    EXPECT_TRUE(pair.ok());
    line_ = std::move(pair->first);
    std::vector<std::string> arguments = {"--line-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::vector<int> descriptors = {pair->second.get()};
    if (passed >= 0) descriptors.push_back(passed);
    pid_ = StartProgram(BROKER_PATH, "tessera-broker", arguments, descriptors).value();
    pair->second.reset();
    // It may have ended already.
    (void)SendMessage(line_.get(), EncodedMessage(TestGpus(gpus)), {}, MonotonicNs() + kAnswerNs);
    if (is_told) (void)SendMessage(line_.get(), EncodedMessage(ToldMessage()), {}, MonotonicNs() + kAnswerNs);
  }
  ~BrokerProcess() { End(SIGKILL); }

  template <typename Message>
  void Send(const Message& message, const std::vector<int>& fds = {}) {
    EXPECT_TRUE(SendMessage(line_.get(), EncodedMessage(message), fds, MonotonicNs() + kAnswerNs).ok());
  }
  // The next message of this kind; that the broker is ready, and lives, is passed over.
  template <typename Message>
  Message Next() {
    for (;;) {
      Result<SocketMessage> got = ReceiveMessage(line_.get(), kBrokerMessageBytesMax, MonotonicNs() + kAnswerNs);
      if (!got.ok()) {
        ADD_FAILURE() << got.status().message();
        return {};
      }
      Result<Message> message = Message::Decode(got->bytes);
      if (message.ok()) return message.value();
      const BrokerWord word = BrokerWordOf(got->bytes);
      EXPECT_TRUE(word == BrokerWord::kAlive || word == BrokerWord::kFigures || word == BrokerWord::kOwners ||
                  word == BrokerWord::kReported || word == BrokerWord::kReady || word == BrokerWord::kKept ||
                  word == BrokerWord::kAnswered);
    }
  }
  // What it said before it ended, or was ended.
  std::vector<SocketMessage> Rest() {
    std::vector<SocketMessage> rest;
    for (;;) {
      Result<SocketMessage> got = ReceiveMessage(line_.get(), kBrokerMessageBytesMax, MonotonicNs() + kAnswerNs);
      if (!got.ok()) return rest;
      rest.push_back(std::move(*got));
    }
  }
  VgpuFileAnswer TakeFile(const std::string& text) {
    const UniqueFd file = TextFile(text);
    Send(VgpuFileMessage{"vgpus.toml", 1, text.size()}, {file.get()});
    return Next<VgpuFileAnswer>();
  }
  pid_t pid() const { return pid_; }
  void HangUp() { line_.reset(); }
  // Its exit code, or -1 when a signal ended it. `sent`: 0: none, it ends by itself.
  int End(int sent) {
    if (pid_ < 0) return -1;
    if (sent != 0) kill(pid_, sent);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  uint64_t CpuNs() const {
    clockid_t clock{};
    timespec used{};
    EXPECT_EQ(clock_getcpuclockid(pid_, &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &used), 0);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
  }

 private:
  UniqueFd line_;
  pid_t pid_ = -1;
};

}  // namespace tessera
