#include "server/images/image_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "protocol/base/log.h"
#include "server/images/image_file.h"

namespace tessera {
namespace {

constexpr char kUnfinished[] = ".new";
// A file that is being written, by this process or another; one that is older was left behind.
constexpr time_t kUnfinishedSecondsMax = 600;

Status CopyAll(int from, int to, uint64_t bytes) {
  off_t offset = 0;
  while (static_cast<uint64_t>(offset) < bytes) {
    const ssize_t copied = sendfile(to, from, &offset, bytes - static_cast<uint64_t>(offset));
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return Status(StatusCode::kResourceExhausted, fmt::format("cannot write an image: errno {}", errno));
  }
  return Status::Ok();
}

}  // namespace

Result<ImageDirectory> ImageDirectory::Open(const std::string& path, uint64_t bytes_max) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::FromErrno("cannot make the directory " + path, errno);
  UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!directory.valid() || fstat(directory.get(), &info) != 0)
    return Status::FromErrno("cannot open the directory " + path, errno);
  if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return Status(StatusCode::kPermissionDenied, "others than this user may write to " + path +
                                                     ": take that right away (chmod 700), or choose "
                                                     "another directory");
  }
  return ImageDirectory(path, std::move(directory), bytes_max);
}

Result<UniqueFd> ImageDirectory::Find(const ImageKey& key, uint64_t bytes) {
  const std::string name = key.Hex();
  UniqueFd file(openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status(StatusCode::kNotFound, "no such image");
  if (static_cast<uint64_t>(info.st_size) != bytes + 1) {
    LogWarning("removed {}/{}, which does not have the size it was written with", path_, name);
    unlinkat(directory_.get(), name.c_str(), 0);
    return Status(StatusCode::kNotFound, "no such image");
  }
  futimens(file.get(), nullptr);  // used now
  return file;
}

Status ImageDirectory::Add(const ImageKey& key, uint64_t bytes, int file) {
  if (Find(key, bytes).ok()) return Status::Ok();
  if (bytes + 1 > bytes_max_) return Status(StatusCode::kResourceExhausted, "the image is larger than the whole cache");
  const Result<ImageFile> image = ImageFile::Map(file, bytes);
  if (!image.ok()) return image.status();
  if (KeyOf(image.value().bytes()) != key) return Status(StatusCode::kInvalidArgument, "the image is not the one that was named");
  const std::string name = key.Hex();
  const std::string unfinished = name + "." + std::to_string(getpid()) + kUnfinished;
  MakeRoom(bytes + 1);
  UniqueFd copy(openat(directory_.get(), unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!copy.valid()) return Status::FromErrno("cannot write to " + path_, errno);
  Status status = CopyAll(file, copy.get(), bytes + 1);
  // On the disk before its name is: after a crash there is the whole image or none.
  if (status.ok() && fdatasync(copy.get()) != 0) status = Status::FromErrno("cannot write an image", errno);
  if (status.ok() && renameat(directory_.get(), unfinished.c_str(), directory_.get(), name.c_str()) != 0) {
    status = Status::FromErrno("cannot name an image", errno);
  }
  if (!status.ok()) unlinkat(directory_.get(), unfinished.c_str(), 0);
  return status;
}

void ImageDirectory::MakeRoom(uint64_t bytes) {
  struct Entry {
    std::string name;
    uint64_t bytes;
    timespec used;
  };
  std::vector<Entry> entries;
  uint64_t total_bytes = bytes;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(path_, error)) {
    const std::string name = file.path().filename();
    struct stat info {};
    if (fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    ImageKey key;
    if (name.ends_with(kUnfinished) && time(nullptr) - info.st_mtim.tv_sec > kUnfinishedSecondsMax) {
      unlinkat(directory_.get(), name.c_str(), 0);
    } else if (ImageKey::FromHex(name, &key)) {  // nothing else here is ours
      entries.push_back({name, static_cast<uint64_t>(info.st_size), info.st_mtim});
      total_bytes += entries.back().bytes;
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // Sessions that have one of them mapped keep it.
  for (const Entry& entry : entries) {
    if (total_bytes <= bytes_max_) return;
    unlinkat(directory_.get(), entry.name.c_str(), 0);
    total_bytes -= entry.bytes;
  }
}

}  // namespace tessera
