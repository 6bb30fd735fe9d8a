#include "client-stub/memory/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "client-stub/process/process_maps.h"
#include "protocol/channel/segment.h"

namespace tessera {
namespace {

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

bool IsFile(int fd, const MapLine& line) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_dev == line.device && info.st_ino == line.inode;
}

UniqueFd Open(const MapLine& line) {
  UniqueFd fd(open(line.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.valid() && IsFile(fd.get(), line)) return fd;
  // A memfd, or a file whose name is gone: a descriptor of it may still be open.
  const std::unique_ptr<DIR, DirectoryCloser> directory(opendir("/proc/self/fd"));
  while (directory != nullptr) {
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const int candidate = std::atoi(entry->d_name);  // "." and ".." give 0, which is checked like any other
    if (!IsFile(candidate, line) || (fcntl(candidate, F_GETFL) & O_ACCMODE) != O_RDWR) continue;
    UniqueFd copy(fcntl(candidate, F_DUPFD_CLOEXEC, 0));
    if (copy.valid() && IsFile(copy.get(), line)) return copy;  // it may have been closed and reused meanwhile
  }
  return UniqueFd();
}

}  // namespace

std::optional<SharedFile> FindSharedFile(const Range& range) {
  SharedFile found;
  found.pages.base = range.base & ~(kPageBytes - 1);
  const uint64_t end = (range.end() + kPageBytes - 1) & ~(kPageBytes - 1);
  found.pages.bytes = end - found.pages.base;
  MapLine first;
  uint64_t covered = found.pages.base;
  ForEachMapping([&](const MapLine& line) {
    if (line.end <= covered) return true;
    // A large mapping may be listed in parts that follow each other.
    const bool follows =
        covered == found.pages.base || (line.device == first.device && line.inode == first.inode &&
                                        line.offset + (covered - line.begin) == found.offset + (covered - found.pages.base));
    if (line.begin > covered || !line.shared || !line.writable || line.inode == 0 || !follows) return false;
    if (covered == found.pages.base) {
      found.offset = line.offset + (covered - line.begin);
      first = line;
    }
    covered = line.end;
    return covered < end;
  });
  if (covered < end) return std::nullopt;
  found.fd = Open(first);
  struct stat info {};
  // The last page may be one that the file fills in part only (NCCL's are), but there must be one.
  if (!found.fd.valid() || fstat(found.fd.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) + kPageBytes <= found.offset + found.pages.bytes) {
    return std::nullopt;
  }
  return found;
}

bool IsShared(const Range& range) {
  bool shared = false;
  ForEachMapping([&](const MapLine& line) {
    if (line.begin >= range.end()) return false;
    shared = line.end > range.base && line.shared;
    return !shared;
  });
  return shared;
}

}  // namespace tessera
