#include "server/images/image_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "protocol/base/log.h"
#include "server/images/image_file.h"

namespace tessera {
namespace {

constexpr char kUnfinished[] = ".new";
// A file that is being written, by this process or another; one that is older was left behind.
constexpr time_t kUnfinishedSecondsMax = 600;

// Reads the whole of a piece. A sealed file has all of what its size says.
Status ReadPiece(int file, std::span<std::byte> piece, uint64_t offset) {
  while (!piece.empty()) {
    const ssize_t got = pread(file, piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status(StatusCode::kInvalidArgument, fmt::format("cannot read an image: errno {}", errno));
    offset += static_cast<uint64_t>(got);
    piece = piece.subspan(static_cast<size_t>(got));
  }
  return Status::Ok();
}

Status WritePiece(int file, std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const ssize_t written = write(file, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Status(StatusCode::kResourceExhausted, fmt::format("cannot write an image: errno {}", errno));
    piece = piece.subspan(static_cast<size_t>(written));
  }
  return Status::Ok();
}

// Copies an image and the zero behind it. What is hashed is what is written: nobody can come between the two.
Result<ImageKey> CopyImage(int from, int to, uint64_t bytes) {
  std::vector<std::byte> room(KeyHasher::kPieceBytes);
  KeyHasher hasher(bytes);
  for (uint64_t offset = 0; offset < bytes; offset += room.size()) {
    const auto piece = std::span(room).first(std::min<uint64_t>(room.size(), bytes - offset));
    RETURN_IF_ERROR(ReadPiece(from, piece, offset));
    hasher.Add(piece);
    RETURN_IF_ERROR(WritePiece(to, piece));
  }
  const auto end = std::span(room).first(1);
  RETURN_IF_ERROR(ReadPiece(from, end, bytes));
  if (end[0] != std::byte{0}) return Status(StatusCode::kInvalidArgument, "the image has no end");
  RETURN_IF_ERROR(WritePiece(to, end));
  return hasher.Key();
}

}  // namespace

Result<ImageDirectory> ImageDirectory::Open(const std::string& path, uint64_t bytes_max, uid_t also) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::FromErrno("cannot make the directory " + path, errno);
  UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!directory.valid() || fstat(directory.get(), &info) != 0)
    return Status::FromErrno("cannot open the directory " + path, errno);
  const bool known = info.st_uid == geteuid() || (geteuid() == 0 && info.st_uid == also);
  if (!known || (info.st_mode & 022) != 0) {
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
  RETURN_IF_ERROR(CheckSealedImage(file, bytes));
  const std::string name = key.Hex();
  const std::string unfinished = name + "." + std::to_string(getpid()) + kUnfinished;
  UniqueFd copy(openat(directory_.get(), unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!copy.valid()) return Status::FromErrno("cannot write to " + path_, errno);
  const Result<ImageKey> copied = CopyImage(file, copy.get(), bytes);
  Status status = copied.status();
  if (status.ok() && copied.value() != key)
    status = Status(StatusCode::kInvalidArgument, "the image is not the one that was named");
  // Not before: one that lies takes nobody's place.
  if (status.ok()) MakeRoom(bytes + 1);
  // On the disk before its name is: after a crash there is the whole image or none.
  if (status.ok() && fdatasync(copy.get()) != 0) status = Status::FromErrno("cannot write an image", errno);
  if (status.ok() && renameat(directory_.get(), unfinished.c_str(), directory_.get(), name.c_str()) != 0) {
    status = Status::FromErrno("cannot name an image", errno);
  }
  if (!status.ok()) unlinkat(directory_.get(), unfinished.c_str(), 0);
  return status;
}

std::vector<std::string> ImageDirectory::Names() const {
  std::vector<std::string> names;
  // By the descriptor: of the path the process may not see all directories any more.
  UniqueFd directory(openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const stream = directory.valid() ? fdopendir(directory.get()) : nullptr;
  if (stream == nullptr) return names;
  static_cast<void>(directory.release());
  while (const dirent* entry = readdir(stream)) names.emplace_back(entry->d_name);
  closedir(stream);
  return names;
}

Status ImageDirectory::HandOver(uid_t user) {
  const auto group = static_cast<gid_t>(user);
  if (fchown(directory_.get(), user, group) != 0)
    return Status::FromErrno("cannot give " + path_ + " to its keeper's user", errno);
  for (const std::string& name : Names()) {
    struct stat info {};
    if (fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    // One that cannot be given away is not found, and kept again.
    if (fchownat(directory_.get(), name.c_str(), user, group, AT_SYMLINK_NOFOLLOW) != 0) LogDebug("{} stays as it is", name);
  }
  return Status::Ok();
}

void ImageDirectory::MakeRoom(uint64_t bytes) {
  struct Entry {
    std::string name;
    uint64_t bytes;
    timespec used;
  };
  std::vector<Entry> entries;
  uint64_t total_bytes = bytes;
  for (const std::string& name : Names()) {
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
