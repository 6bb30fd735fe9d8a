#include "server/daemon/shared_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace tessera {
namespace {

constexpr const char* kPrefix = "tessera-workers-";

UniqueFd Lock(const std::string& path) {
  UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory.valid() && flock(directory.get(), LOCK_EX | LOCK_NB) != 0) directory.reset();
  return directory;
}

// Those that nobody holds, of processes that were killed. Others' directories stay: they cannot be opened or removed.
void RemoveForgotten(const std::string& above) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(above, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const UniqueFd lock = Lock(entry.path());
    if (lock.valid()) std::filesystem::remove_all(entry.path(), error);
  }
}

}  // namespace

Result<SharedDirectory> SharedDirectory::Make(uid_t owner, const std::string& above) {
  RemoveForgotten(above);
  SharedDirectory made;
  std::string path = above + "/" + kPrefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return Status::FromErrno("cannot make a directory in " + above, errno);
  made.path_ = path;
  made.lock_ = Lock(path);
  // Another server may have taken it for forgotten before it was locked.
  struct stat status {};
  if (!made.lock_.valid() || fstat(made.lock_.get(), &status) != 0 || status.st_nlink == 0) {
    made.path_.clear();
    return Make(owner, above);
  }
  if (owner != geteuid() && fchown(made.lock_.get(), owner, static_cast<gid_t>(-1)) != 0) {
    return Status::FromErrno("cannot give " + path + " to the user of workers", errno);
  }
  return made;
}

SharedDirectory::~SharedDirectory() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

SharedDirectory::SharedDirectory(SharedDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

SharedDirectory& SharedDirectory::operator=(SharedDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

}  // namespace tessera
