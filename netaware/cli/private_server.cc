#include "netaware/cli/private_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

// The line that the daemon prints when it is ready; empty when it ended or the time passed before.
std::string ReadReadyLine(int fd) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{PrivateServer::kReadyTimeoutMs} * 1'000'000;
  std::string line;
  while (line.empty() || line.back() != '\n') {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return "";
    pollfd readable{fd, POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "";
    char byte;
    const ssize_t got = read(fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "";
    line.push_back(byte);
  }
  line.pop_back();
  return line;
}

[[noreturn]] void ExecDaemon(const std::string& daemon, const std::string& listen, const std::string& driver, int out) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The terminal's Ctrl-C is for the program; the server ends after it.
  setpgid(0, 0);
  dup2(out, STDOUT_FILENO);
  execl(daemon.c_str(), daemon.c_str(), "--listen", listen.c_str(), "--driver", driver.c_str(), "--grace", "0",
        static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

Result<PrivateServer> PrivateServer::Start(const std::string& daemon, const std::string& driver) {
  PrivateServer server;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  std::string directory = std::string(runtime != nullptr && access(runtime, W_OK) == 0 ? runtime : "/tmp") + "/tessera-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    return Status::FromErrno("a private directory for the server cannot be made at " + directory, errno);
  }
  server.directory_ = directory;
  server.url_ = "unix:" + directory + "/server.sock";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("a pipe to the server cannot be made", errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  server.pid_ = fork();
  if (server.pid_ < 0) return Status::FromErrno("the server cannot be started", errno);
  if (server.pid_ == 0) ExecDaemon(daemon, server.url_, driver, write_end.get());
  write_end.reset();
  const std::string line = ReadReadyLine(read_end.get());
  if (line.empty()) {
    int status = 0;
    if (waitpid(server.pid_, &status, WNOHANG) == server.pid_) server.pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
      return Status(StatusCode::kNotFound, "the private server found no device (driver '" + driver + "')");
    }
    return Status(StatusCode::kInternal, "the private server did not become ready");
  }
  const size_t devices = line.find("devices: ");
  server.description_ = devices == std::string::npos ? line : line.substr(devices);
  return server;
}

PrivateServer::PrivateServer(PrivateServer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      directory_(std::exchange(other.directory_, "")),
      url_(std::move(other.url_)),
      description_(std::move(other.description_)) {}

PrivateServer::~PrivateServer() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (directory_.empty()) return;
  unlink((directory_ + "/server.sock").c_str());
  rmdir(directory_.c_str());
}

}  // namespace tessera
