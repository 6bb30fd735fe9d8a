#include "protocol/base/child_logs.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/base/clock.h"
#include "tests/protocol/base/caught_log.h"

namespace tessera {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class ChildLogsTest : public testing::Test {
 protected:
  ~ChildLogsTest() override {
    for (const pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  // A shell as a child with the name "child".
  pid_t Start(const std::string& script) {
    Result<pid_t> pid = logs_.Start("/bin/sh", "sh", "child", {"-c", script}, {});
    if (pid.ok()) running_.push_back(*pid);
    return pid.ok() ? *pid : -1;
  }
  void AwaitEnd(pid_t pid) {
    waitpid(pid, nullptr, 0);
    std::erase(running_, pid);
    logs_.Forget(pid);
  }
  // A turn of a loop.
  void Turn(int timeout_ms) {
    std::vector<pollfd> ready;
    logs_.Watch(&ready);
    poll(ready.data(), ready.size(), timeout_ms);
    logs_.Relay(ready);
  }
  std::string WrittenBy(const std::string& script) {
    AwaitEnd(Start(script));
    return log_.Taken();
  }

  CaughtLog log_{O_NONBLOCK};
  ChildLogs logs_;
  std::vector<pid_t> running_;
};

TEST_F(ChildLogsTest, AChildSpeaksForItselfAlone) {
  EXPECT_EQ(
      WrittenBy("echo 'child[7]: warning: one'; echo 'child: two' >&2; echo 'parent[1]: error: three'; echo childish: four"),
      "child[7]: warning: one\nchild: two\nchild: parent[1]: error: three\nchild: childish: four\n");
}

TEST_F(ChildLogsTest, LinesAreMadePrintable) { EXPECT_EQ(WrittenBy(R"(printf 'a\033[2Jb\n')"), "child: a?[2Jb\n"); }

TEST_F(ChildLogsTest, LastWordsNeedNoNewline) {
  EXPECT_EQ(WrittenBy("printf 'one\\n\\ntwo'; kill -9 $$"), "child: one\nchild: two\n");
}

TEST_F(ChildLogsTest, LongLinesAreBroken) {
  const std::string text = WrittenBy("head -c 10000 /dev/zero | tr '\\0' x");
  EXPECT_EQ(std::ranges::count(text, 'x'), 10'000);
  EXPECT_EQ(std::ranges::count(text, '\n'), 10'000 / ChildLogs::kLineBytesMax + 1);
}

TEST_F(ChildLogsTest, AChildHasASessionOfItsOwnAndWaitsForNobody) {
  // `head` fails where it would wait: more than a pipe holds, which nobody reads.
  const pid_t pid = Start("head -c 1000000 /dev/zero 2>/dev/null; exec sleep 60");
  const uint64_t deadline_ns = MonotonicNs() + 10 * kSecondNs;
  const auto sleeps = [&] {
    char name[16] = {};
    const UniqueFd file(open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
    return read(file.get(), name, sizeof(name) - 1) > 0 && std::string(name) == "sleep\n";
  };
  while (!sleeps() && MonotonicNs() < deadline_ns) usleep(10'000);
  EXPECT_TRUE(sleeps());
  EXPECT_EQ(getsid(pid), pid);
}

TEST_F(ChildLogsTest, OneThatWritesWithoutEndIsReadSlowly) {
  Start("while :; do echo y; done 2>/dev/null");
  size_t lines = 0;
  std::string text;
  const uint64_t until_ns = MonotonicNs() + 2 * kSecondNs;
  bool told = false;
  while (MonotonicNs() < until_ns) {
    Turn(20);
    while (!(text = log_.Taken()).empty()) {
      lines += static_cast<size_t>(std::ranges::count(text, '\n'));
      told = told || text.find("child writes too much") != std::string::npos;
    }
  }
  EXPECT_TRUE(told);
  // A slow machine may need longer than those two seconds.
  EXPECT_LT(lines, (ChildLogs::kBurstBytes + 8 * ChildLogs::kBytesPerSecond) / ChildLogs::kLineBytes);
}

TEST_F(ChildLogsTest, AllTogetherAreReadSlowlyAndOneThatSaysLittleIsHeard) {
  for (int i = 0; i < 16; ++i)
    Start("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done 2>/dev/null");
  size_t bytes = 0;
  std::string text, all;
  const uint64_t began_ns = MonotonicNs();
  bool told = false, heard = false, asked = false;
  while (MonotonicNs() < began_ns + 30 * kSecondNs && !(told && heard)) {
    Turn(20);
    while (!(text = log_.Taken()).empty()) {
      bytes += text.size();
      told = told || text.find("all processes of this server together write too much") != std::string::npos;
      heard = heard || text.find("child: quiet") != std::string::npos;
    }
    if (told && !asked) {
      asked = true;
      Start("echo quiet; exec sleep 60");
    }
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(heard);
  const auto seconds = static_cast<int64_t>((MonotonicNs() - began_ns) / kSecondNs + 1);
  EXPECT_LT(bytes, static_cast<size_t>(ChildLogs::kBurstBytesOfAll + seconds * ChildLogs::kBytesPerSecondOfAll) + 65536);
}

TEST(LogTest, WhatIsLeftOutIsToldThoughNothingIsSaidAfterwards) {
  CaughtLog log(O_NONBLOCK);
  std::string filling(size_t{1} << 16, '-');
  while (write(log.to(), filling.data(), filling.size()) > 0) {
  }
  for (int i = 0; i < 3; ++i) LogWarning("line {}", i);
  std::string text;
  const uint64_t deadline_ns = MonotonicNs() + 10 * kSecondNs;
  while (text.find("3 lines are left out here") == std::string::npos && MonotonicNs() < deadline_ns) {
    text += log.Taken();
    usleep(1000);
  }
  EXPECT_NE(text.find("3 lines are left out here"), std::string::npos);
}

TEST_F(ChildLogsTest, WhileStderrTakesNothingItWaitsThere) {
  std::string filling(size_t{1} << 16, '-');
  while (write(log_.to(), filling.data(), filling.size()) > 0) {
  }
  const pid_t pid = Start("printf 'one\\ntwo\\n'; sleep 60");
  const uint64_t deadline_ns = MonotonicNs() + 10 * kSecondNs;
  std::vector<pollfd> ready;
  while (MonotonicNs() < deadline_ns) {
    Turn(100);
    ready.clear();
    logs_.Watch(&ready);
    if (ready.size() == 1 && ready[0].fd == log_.to()) break;
  }
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].fd, log_.to());
  kill(pid, SIGKILL);
  AwaitEnd(pid);
  while (!log_.Taken().empty()) {
  }
  Turn(10'000);
  EXPECT_EQ(log_.Taken(), "child: one\nchild: two\n");
  ready.clear();
  logs_.Watch(&ready);
  EXPECT_TRUE(ready.empty());
}

}  // namespace
}  // namespace tessera
