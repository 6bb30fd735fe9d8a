#include "tests/support/log_attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr int kDescriptorsMax = 1024;

void Say(int fd, std::string_view line) {
  if (write(fd, line.data(), line.size()) < 0) return;
}

template <typename Act>
bool WithAny(const Act& act) {
  for (int fd = 0; fd < kDescriptorsMax; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 && act(fd)) return true;
  }
  return false;
}

bool HoldTerminal(long) {
  if (WithAny([](int fd) { return isatty(fd) != 0; })) return true;
  return UniqueFd(open("/dev/tty", O_RDWR | O_CLOEXEC)).valid();
}

bool TypeIntoTerminal(long) {
  return WithAny([](int fd) {
    for (const char key : std::string_view("echo typed\n")) {
      if (ioctl(fd, TIOCSTI, &key) != 0) return false;
    }
    return true;
  });
}

bool TruncateFile(long inode) {
  return WithAny([inode](int fd) {
    struct stat file {};
    return fstat(fd, &file) == 0 && file.st_ino == static_cast<ino_t>(inode) && ftruncate(fd, 0) == 0;
  });
}

bool FloodLog(long) {
  std::vector<int> pipes;
  WithAny([&](int fd) {
    struct stat file {};
    if (fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode)) pipes.push_back(fd);
    return false;
  });
  for (int i = 0; i < 1'000'000; ++i) {
    for (const int fd : pipes) Say(fd, "tesserad[1]: error: a lie\n");
  }
  return !pipes.empty();
}

bool DieWithLastWords(long) {
  Say(STDERR_FILENO, "these are my last words\n");
  std::abort();
}

}  // namespace

const std::vector<Attempt>& LogAttempts() {
  static const std::vector<Attempt> kAttempts = {{"hold-terminal", HoldTerminal},
                                                 {"type-into-terminal", TypeIntoTerminal},
                                                 {"truncate-file", TruncateFile},
                                                 {"flood-log", FloodLog},
                                                 {"die-with-last-words", DieWithLastWords}};
  return kAttempts;
}

}  // namespace tessera
