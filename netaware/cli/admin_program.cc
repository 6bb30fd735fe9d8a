#include "netaware/cli/admin_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "netaware/cli/exit_codes.h"
#include "protocol/base/clock.h"
#include "protocol/base/start_program.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr uint64_t kAnswerNs = 15'000'000'000;
constexpr size_t kOutputBytesMax = 1 << 20;

std::string Path() {
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "tessera-admin").string();
}

std::string CannotStart(const std::string& path, int error) {
  return "cannot start " + path + ": " + std::strerror(error) + "; install it (package tessera-placer)";
}

// Reads until the writer ends, or until its time is over.
std::string ReadAll(int fd) {
  const uint64_t deadline_ns = MonotonicNs() + kAnswerNs;
  std::string text;
  char part[4096];
  while (text.size() < kOutputBytesMax) {
    const uint64_t now_ns = MonotonicNs();
    pollfd readable{fd, POLLIN, 0};
    const int ready = now_ns < deadline_ns ? poll(&readable, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t got = read(fd, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

int BecomeAdminProgram(char** argv) {
  const std::string program = Path();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "tessera: %s\n", CannotStart(program, errno).c_str());
  return kExitMissingLibrary;
}

Result<std::string> OutputOfAdminProgram(const std::vector<std::string>& words) {
  const std::string program = Path();
  if (access(program.c_str(), X_OK) != 0) return Status(StatusCode::kNotFound, CannotStart(program, errno));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("cannot make a pipe", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const Result<pid_t> pid = StartProgram(program, "tessera-admin", words, {}, std::nullopt, write_end.get());
  if (!pid.ok()) return pid.status();
  write_end.reset();
  std::string text = ReadAll(read_end.get());
  kill(pid.value(), SIGKILL);  // safe: the process is not reaped yet, so the id is still its own
  while (waitpid(pid.value(), nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

}  // namespace tessera
