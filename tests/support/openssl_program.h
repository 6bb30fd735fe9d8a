// The program openssl as a process of its own, whose stdin and stdout a test has.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/unique_fd.h"
#include "tests/support/tcp_pair.h"

namespace tessera {

class OpensslProgram {
 public:
  static bool Installed() { return system("command -v openssl > /dev/null") == 0; }

  explicit OpensslProgram(std::vector<std::string> words) {
    words.insert(words.begin(), "openssl");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int in[2], out[2];
    EXPECT_TRUE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(posix_spawnp(&pid_, "openssl", &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_.reset(in[1]);
    out_.reset(out[0]);
  }
  ~OpensslProgram() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  OpensslProgram(const OpensslProgram&) = delete;

  // Writes to its stdin, and waits until it has read that: the next words are no part of these.
  void Say(std::string_view words) {
    ASSERT_EQ(write(in_.get(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
    const uint64_t end_ns = MonotonicNs() + kTcpTestNs;
    for (int unread = 1; unread != 0 && MonotonicNs() < end_ns;) {
      if (ioctl(in_.get(), FIONREAD, &unread) == 0 && unread != 0) usleep(50);
    }
  }
  // So many bytes of its stdout, fewer when it ends before.
  std::string Hear(size_t bytes) {
    std::string words;
    while (words.size() < bytes && More(bytes - words.size(), &words)) {
    }
    return words;
  }
  // Its stdout until it has said this, or ended.
  std::string HearUntil(std::string_view last) {
    std::string words;
    while (words.find(last) == std::string::npos && More(1, &words)) {
    }
    return words;
  }

 private:
  bool More(size_t bytes, std::string* words) {
    std::string some(bytes, '\0');
    pollfd ready = {out_.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000)) != 1) return false;
    const ssize_t got = read(out_.get(), some.data(), bytes);
    if (got > 0) words->append(some, 0, static_cast<size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

}  // namespace tessera
