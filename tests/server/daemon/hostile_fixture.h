// What the tests of hostile clients share: a tesserad on the emulator, what it holds, memory of a device.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "generated/messages/memory.h"
#include "protocol/base/clock.h"
#include "tests/server/daemon/daemon_process.h"
#include "tests/server/daemon/raw_client.h"

namespace tessera {

class HostileClientTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hostileXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/socket";
    Start({});
  }
  // Begins anew with these options besides.
  void Start(const std::vector<std::string>& more) {
    daemon_.reset();
    std::vector<std::string> words = {"--listen", "unix:" + path_,  "--driver", "emulator",           "--log", "info", "--grace",
                                      "0",        "--warm-workers", "0",        "--image-cache-size", "0"};
    words.insert(words.end(), more.begin(), more.end());
    daemon_ = std::make_unique<DaemonProcess>(words);
    ASSERT_NE(daemon_->ReadyLine(), "") << daemon_->log();
  }
  void TearDown() override {
    daemon_.reset();
    std::filesystem::remove_all(directory_);
  }

  // What session `number` itself said above "info".
  int SentencesOf(uint64_t number) {
    daemon_->WaitForLog("session " + std::to_string(number) + " of pid ");  // the supervisor's last word about it
    std::istringstream lines(daemon_->log());
    int found = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool own = line.find("session " + std::to_string(number) + " failed") != std::string::npos ||
                       line.find("session " + std::to_string(number) + " did not begin") != std::string::npos;
      if (own) ++found;
    }
    return found;
  }

  // Until every session's worker has ended.
  void WaitForNoWorkers() {
    const uint64_t deadline_ns = MonotonicNs() + 20'000'000'000;
    while (!daemon_->Children().empty() && MonotonicNs() < deadline_ns) usleep(20'000);
    ASSERT_TRUE(daemon_->Children().empty());
  }

  std::string directory_;
  std::string path_;
  std::unique_ptr<DaemonProcess> daemon_;
};

// The address of new device memory; 0 when there is none.
inline uint64_t Allocate(RawClient& client, uint64_t bytes) {
  cuMemAlloc_v2Request request;
  request.bytesize = bytes;
  const auto reply = client.WaitFor(client.Send(request));
  cuMemAlloc_v2Reply allocated;
  if (!reply || reply->header.result != 0) return 0;
  Decoder decoder(reply->payload);
  return allocated.Decode(decoder) ? allocated.dptr : 0;
}

// What a process holds.
struct Usage {
  size_t descriptors = 0;
  size_t resident_kib = 0;
};

inline Usage UsageOf(pid_t pid) {
  Usage usage;
  const std::string directory = "/proc/" + std::to_string(pid);
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory + "/fd")) ++usage.descriptors;
  std::ifstream status(directory + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> usage.resident_kib;
  }
  return usage;
}

}  // namespace tessera
