#include "protocol/base/start_program.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/base/unique_fd.h"

extern char** environ;

namespace tessera {

Result<pid_t> StartProgram(const std::string& path, const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<int>& passed, std::optional<std::vector<std::string>> environment, int log_fd) {
  // Copies above the places they go to, so that no place is taken before what is there has been moved.
  const int first_free = kPassedFd + static_cast<int>(passed.size());
  std::vector<UniqueFd> moved;
  for (const int fd : passed) {
    moved.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, first_free));
    if (!moved.back().valid()) return Status::FromErrno("cannot pass a descriptor to a child process", errno);
  }
  const UniqueFd log(log_fd < 0 ? -1 : fcntl(log_fd, F_DUPFD_CLOEXEC, first_free));
  if (log_fd >= 0 && !log.valid()) return Status::FromErrno("cannot pass a log to a child process", errno);
  std::vector<char*> argv;
  std::vector<std::string> copies = arguments;
  copies.insert(copies.begin(), name);
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> variables;
  if (environment) {
    for (std::string& variable : *environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  for (size_t i = 0; i < moved.size(); ++i) {
    posix_spawn_file_actions_adddup2(&actions, moved[i].get(), kPassedFd + static_cast<int>(i));
  }
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (log.valid()) {
    posix_spawn_file_actions_adddup2(&actions, log.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, log.get(), STDERR_FILENO);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, first_free);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(), environment ? variables.data() : environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Status::FromErrno("cannot start a child process", error);
  return pid;
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* description = sigdescr_np(number);
    return fmt::format("was killed by signal {} ({})", number, description == nullptr ? "unknown" : description);
  }
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
}

}  // namespace tessera
