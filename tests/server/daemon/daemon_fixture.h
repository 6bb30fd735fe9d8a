// What tests of tesserad as a process share.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "protocol/base/clock.h"
#include "tests/server/daemon/daemon_process.h"

namespace tessera {

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tesseradXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Tests count processes: none waits for a session unless a test wants it.
  std::vector<std::string> Arguments(std::vector<std::string> more = {}, const std::string& warm_workers = "0") const {
    std::vector<std::string> arguments = {"--listen", "unix:" + path_,  "--driver",   "emulator",           "--log",
                                          "info",     "--warm-workers", warm_workers, "--image-cache-size", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Whether the peer closed the socket in time.
  static bool HangsUp(int fd, int timeout_ms = 10'000) {
    pollfd ready = {fd, POLLRDHUP, 0};  // not POLLIN: a refusal may wait to be read
    return poll(&ready, 1, timeout_ms) == 1 && (ready.revents & (POLLHUP | POLLRDHUP)) != 0;
  }

  static std::vector<pid_t> WaitForChildren(const DaemonProcess& daemon, size_t count) {
    const uint64_t deadline_ns = MonotonicNs() + 10'000'000'000;
    std::vector<pid_t> children = daemon.Children();
    while (children.size() != count && MonotonicNs() < deadline_ns) {
      usleep(2000);
      children = daemon.Children();
    }
    return children;
  }

  std::string directory_;
  std::string path_;
};

}  // namespace tessera
