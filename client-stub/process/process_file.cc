#include "client-stub/process/process_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr uint64_t kNsPerS = 1'000'000'000;
constexpr mode_t kFileMode = 0666;  // less the umask, as fopen() has it

// Whether another process of the run has it. The lock is for those that end at the same time: a file system without locks
// leaves these to their luck.
bool IsTaken(int fd, uint64_t run_begun_ns) {
  struct stat file = {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return false;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  if (fstat(fd, &file) != 0 || file.st_size == 0) return false;
  const uint64_t changed_ns = static_cast<uint64_t>(file.st_mtim.tv_sec) * kNsPerS + static_cast<uint64_t>(file.st_mtim.tv_nsec);
  return changed_ns >= run_begun_ns;
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Its present content goes, where it has one.
bool Replace(int fd, std::string_view text) {
  struct stat file = {};
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && ftruncate(fd, 0) != 0) return false;
  return WriteAll(fd, text);
}

}  // namespace

bool ProcessFile::Write(std::string_view text) const {
  const std::string number = std::to_string(getpid());
  std::string path = path_;
  bool numbered = false;
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + number.size())) {
    path.replace(at, 2, number);
    numbered = true;
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC;
  const UniqueFd fd(open(path.c_str(), kFlags, kFileMode));
  if (!fd.valid()) return false;
  if (numbered || !IsTaken(fd.get(), run_begun_ns_)) return Replace(fd.get(), text);
  const UniqueFd own(open((path + "." + number).c_str(), kFlags, kFileMode));
  return own.valid() && Replace(own.get(), text);
}

}  // namespace tessera
