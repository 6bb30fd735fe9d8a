#include "tests/server/daemon/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/memory/window_table.h"
#include "protocol/wire/handshake.h"

extern char** environ;

namespace tessera {
namespace {

uint64_t DeadlineNs(int timeout_ms) { return MonotonicNs() + uint64_t(timeout_ms) * 1'000'000; }
int LeftMs(uint64_t deadline_ns) {
  const uint64_t now_ns = MonotonicNs();
  return now_ns >= deadline_ns ? 0 : int((deadline_ns - now_ns) / 1'000'000 + 1);
}

}  // namespace

DaemonProcess::DaemonProcess(const std::vector<std::string>& arguments) {
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) abort();
  out_.reset(out[0]);
  err_.reset(err[0]);
  std::vector<std::string> copies = arguments;
  copies.insert(copies.begin(), "tesserad");
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  if (posix_spawn(&pid_, TESSERAD_PATH, &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
}

DaemonProcess::~DaemonProcess() {
  if (pid_ <= 0 || wait_status_ != -1) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool DaemonProcess::Pump(int timeout_ms) {
  pollfd ready[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  poll(ready, 2, timeout_ms);
  char piece[4096];
  for (int i = 0; i < 2; ++i) {
    if (ready[i].revents == 0) continue;
    const ssize_t count = read(ready[i].fd, piece, sizeof(piece));
    if (count > 0) {
      (i == 0 ? out_text_ : err_text_).append(piece, size_t(count));
    } else if (count == 0) {
      (i == 0 ? out_ : err_).reset();
    }
  }
  return out_.valid() || err_.valid();
}

std::string DaemonProcess::ReadyLine(int timeout_ms) {
  const uint64_t deadline_ns = DeadlineNs(timeout_ms);
  while (out_text_.find('\n') == std::string::npos && out_.valid() && LeftMs(deadline_ns) > 0) Pump(LeftMs(deadline_ns));
  const size_t end = out_text_.find('\n');
  return end == std::string::npos ? "" : out_text_.substr(0, end);
}

bool DaemonProcess::WaitForLog(const std::string& text, int timeout_ms) {
  const uint64_t deadline_ns = DeadlineNs(timeout_ms);
  while (err_text_.find(text) == std::string::npos) {
    if (LeftMs(deadline_ns) == 0 || !Pump(LeftMs(deadline_ns))) return err_text_.find(text) != std::string::npos;
  }
  return true;
}

int DaemonProcess::Wait(int timeout_ms) {
  const uint64_t deadline_ns = DeadlineNs(timeout_ms);
  while (LeftMs(deadline_ns) > 0 && Pump(LeftMs(deadline_ns))) {
  }
  while (wait_status_ == -1) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) wait_status_ = status;
    if (ended == pid_ || LeftMs(deadline_ns) == 0) break;
    usleep(2000);
  }
  return wait_status_;
}

std::vector<pid_t> DaemonProcess::Children() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
  std::vector<pid_t> children;
  for (pid_t child; file >> child;) {
    std::ifstream name("/proc/" + std::to_string(child) + "/comm");
    std::string word;
    name >> word;
    if (word != "tessera-broker") children.push_back(child);
  }
  return children;
}

UniqueFd ConnectTo(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  return socket;
}

UniqueFd SayHelloTo(const std::string& path, const std::vector<std::string>& environment) {
  UniqueFd socket = ConnectTo(path);
  if (!socket.valid()) return {};
  ClientHello hello;
  hello.spec_hash = kSpecHash;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.window_rows = ~uint64_t{0} >> (64 - kWindowRows);
  hello.program = "daemon_test";
  hello.environment = environment;
  Encoder encoder;
  hello.Encode(encoder);
  if (send(socket.get(), encoder.bytes().data(), encoder.size(), MSG_NOSIGNAL) < 0) return {};
  return socket;
}

}  // namespace tessera
