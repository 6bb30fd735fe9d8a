// What a daemon makes for a worker and hands to the broker: pages, an eventfd, a process. For tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/channel/segment.h"
#include "protocol/channel/unix_socket.h"
#include "server/gate/broker_line.h"
#include "server/gate/gate_page.h"
#include "server/gate/report_page.h"

namespace tessera {

template <typename Message>
std::vector<std::byte> EncodedMessage(const Message& message) {
  Encoder out;
  message.Encode(out);
  return std::vector<std::byte>(out.bytes().begin(), out.bytes().end());
}

inline GpusMessage TestGpus(size_t count, uint64_t context_bytes = 0) {
  GpusMessage gpus;
  gpus.uuids.resize(count);
  gpus.memory_bytes.assign(count, uint64_t{10} << 30);
  gpus.context_bytes.assign(count, context_bytes);
  for (size_t i = 0; i < count; ++i) gpus.uuids[i].fill(static_cast<std::byte>(i + 1));
  return gpus;
}

inline UniqueFd TextFile(const std::string& text) {
  UniqueFd file(memfd_create("tessera-text", MFD_CLOEXEC));
  EXPECT_EQ(write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

// A process that waits until it is killed.
class TestProcess {
 public:
  TestProcess() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
    fd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    EXPECT_TRUE(fd_.valid());
  }
  ~TestProcess() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int fd() const { return fd_.get(); }

 private:
  pid_t pid_;
  UniqueFd fd_;
};

// The pages of one worker, as the daemon and the worker have them.
class TestPages {
 public:
  TestPages()
      : gate_file_(CreateSegmentFile("tessera-gate", kPageBytes).value()),
        report_file_(CreateSegmentFile("tessera-report", kReportFileBytes).value()),
        ring_(eventfd(0, EFD_CLOEXEC)),
        gate_(Mapping::Map(gate_file_.get(), kPageBytes, 0, MapPlacement::Anywhere()).value()),
        report_(Mapping::Map(report_file_.get(), kReportFileBytes, 0, MapPlacement::Anywhere()).value()) {}

  GatePage& gate() { return *reinterpret_cast<GatePage*>(gate_.data()); }
  ReportPage& report() { return *reinterpret_cast<ReportPage*>(report_.data()); }
  GateWord Word(size_t row = 0) { return GateWord::Of(gate().rows[row].gate.load()); }
  void Ring() { EXPECT_EQ(eventfd_write(ring_.get(), 1), 0); }
  // Of a CameMessage.
  std::vector<int> Fds(const TestProcess& process) const {
    return {gate_file_.get(), report_file_.get(), ring_.get(), process.fd()};
  }

 private:
  UniqueFd gate_file_;
  UniqueFd report_file_;
  UniqueFd ring_;
  Mapping gate_;
  Mapping report_;
};

// What Broker::Take() gets.
template <typename Message>
SocketMessage AsReceived(const Message& message, const std::vector<int>& fds = {}) {
  SocketMessage received;
  received.bytes = EncodedMessage(message);
  for (const int fd : fds) received.fds.emplace_back(dup(fd));
  return received;
}

}  // namespace tessera
