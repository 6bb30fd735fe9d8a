#include "netaware/cli/companion.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "protocol/base/clock.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

constexpr const char* kSocketName = "/server.sock";
constexpr int kOwnerFd = 3;  // in the companion; what it was started with is closed
constexpr int kCannotExec = 127;

// A new directory that only this user can enter; empty with errno when there is none.
std::string MakeDirectory() {
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - sizeof("/server.sock");
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  for (const char* parent : {runtime, "/tmp"}) {
    if (parent == nullptr || access(parent, W_OK) != 0) continue;
    std::string directory = std::string(parent) + "/tessera-XXXXXX";
    if (directory.size() < kPathMax && mkdtemp(directory.data()) != nullptr) return directory;
  }
  return "";
}

// Readable, or hung up, once this process has ended. Kernels before 5.3 and some sandboxes have no pidfds: there the end
// of a pipe does it, whose other end stays open in the program and in what it starts.
UniqueFd OwnerFd() {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (pidfd.valid()) return pidfd;
  int ends[2];
  if (pipe(ends) != 0) return {};
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  return UniqueFd(ends[0]);
}

// The line that the companion prints when it is ready; empty when it ended or the time passed before.
std::string ReadReadyLine(int fd, int timeout_ms) {
  const uint64_t deadline_ns = timeout_ms < 0 ? kNoDeadline : MonotonicNs() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  std::string line;
  while (line.empty() || line.back() != '\n') {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return "";
    pollfd readable{fd, POLLIN, 0};
    const int wait_ms = deadline_ns == kNoDeadline ? -1 : static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1;
    const int ready = poll(&readable, 1, wait_ms);
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

// In the child, between fork and exec.
[[noreturn]] void Exec(const Companion::Program& program, const std::string& listen, int out, int owner) {
  setsid();  // the terminal's Ctrl-C and hang-up are for the program
  dup2(out, STDOUT_FILENO);
  dup2(owner, kOwnerFd);
  fcntl(kOwnerFd, F_SETFD, 0);
  syscall(SYS_close_range, kOwnerFd + 1, ~0U, 0);
  std::vector<std::string> words = {program.path,        "--listen", listen, "--owner-fd", std::to_string(kOwnerFd),
                                    "--remove-directory"};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  for (const std::string& variable : program.without) unsetenv(variable.c_str());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(kCannotExec);
}

// Whether the process ends within a second; then `*status` is its wait status.
bool EndsSoon(pid_t pid, int* status) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (waitpid(pid, status, WNOHANG) == pid) return true;
    usleep(10'000);
  }
  return false;
}

// What became of a companion that closed its output, or said nothing in time.
ServerProblem ProblemOf(pid_t pid, const Companion::Program& program, int* exit_code) {
  int status = 0;
  if (!EndsSoon(pid, &status)) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return {kExitServerFailed, program.name + " " + program.path + " was not ready in time: " + program.when_late};
  }
  if (WIFSIGNALED(status)) {
    return {kExitServerFailed, program.name + " " + program.path + " was ended by signal " + std::to_string(WTERMSIG(status)) +
                                   " before it was ready: start it by hand to see more (" + program.path +
                                   " --listen unix:PATH --log debug)"};
  }
  *exit_code = WEXITSTATUS(status);
  if (*exit_code != kCannotExec) return {kExitServerFailed, ""};
  return {kExitMissingLibrary, program.path + " cannot be started: this installation of Tessera is damaged, install it again"};
}

}  // namespace

ServerProblem Companion::Start(const Program& program, Companion* companion, int* exit_code) {
  const std::string directory = MakeDirectory();
  if (directory.empty()) {
    return {kExitServerFailed, "a directory for the socket of " + program.name + " cannot be made in /tmp (" +
                                   std::strerror(errno) + "): set XDG_RUNTIME_DIR to one that you may write to"};
  }
  const UniqueFd owner = OwnerFd();
  int ends[2];
  if (!owner.valid() || pipe2(ends, O_CLOEXEC) != 0) {
    const std::string why = std::strerror(errno);
    rmdir(directory.c_str());
    return {kExitServerFailed, program.name + " cannot be started: " + why};
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  companion->url = "unix:" + directory + kSocketName;
  const pid_t pid = fork();
  if (pid == 0) Exec(program, companion->url, write_end.get(), owner.get());
  write_end.reset();
  companion->line = pid > 0 ? ReadReadyLine(read_end.get(), program.ready_timeout_ms) : "";
  if (companion->line.empty()) {
    const ServerProblem problem =
        pid > 0 ? ProblemOf(pid, program, exit_code)
                : ServerProblem{kExitServerFailed, program.name + " cannot be started: " + std::strerror(errno)};
    unlink((directory + kSocketName).c_str());
    rmdir(directory.c_str());
    return problem;
  }
  // It has gone to the background: this process has no child that the program would not know of.
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

}  // namespace tessera
