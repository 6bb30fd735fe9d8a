#include "server/images/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace tessera {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Status CheckSize(int file, uint64_t bytes) {
  struct stat info {};
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == bytes + 1) return Status::Ok();
  return Status(StatusCode::kInvalidArgument, "the file is not an image of this size");
}

}  // namespace

Status CheckSealedImage(int file, uint64_t bytes) {
  // The seals first: fstat(2) of a file that has none may ask whoever serves its file system.
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Status(StatusCode::kInvalidArgument, "the image is not in memory that is sealed");
  }
  return CheckSize(file, bytes);
}

Result<ImageFile> ImageFile::Map(int file, uint64_t bytes) {
  RETURN_IF_ERROR(CheckSize(file, bytes));
  // Files that cannot be sealed are those of a directory that is ours alone.
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals >= 0 ? (seals & kSeals) != kSeals : (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY) {
    return Status(StatusCode::kInvalidArgument, "the image can still be changed");
  }
  void* const data = mmap(nullptr, bytes + 1, PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return Status::FromErrno("cannot map an image", errno);
  const auto* const first = static_cast<const std::byte*>(data);
  ImageFile image(first, bytes);
  if (first[bytes] != std::byte{0}) return Status(StatusCode::kInvalidArgument, "the image has no end");
  return image;
}

ImageFile::ImageFile(ImageFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

ImageFile::~ImageFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_ + 1);
}

Result<ImageReceiver> ImageReceiver::Make(uint64_t bytes) {
  UniqueFd file(memfd_create("tessera-image", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(bytes + 1)) != 0) {
    return Status::FromErrno("cannot make room for an image", errno);
  }
  return ImageReceiver(std::move(file), bytes);
}

bool ImageReceiver::Append(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const ssize_t written = pwrite(file_.get(), piece.data(), piece.size(), static_cast<off_t>(received_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    received_ += static_cast<uint64_t>(written);
    piece = piece.subspan(static_cast<size_t>(written));
  }
  return true;
}

Result<ImageFile> ImageReceiver::Seal() {
  if (fcntl(file_.get(), F_ADD_SEALS, kSeals) != 0) return Status::FromErrno("cannot seal an image", errno);
  return ImageFile::Map(file_.get(), bytes_);
}

}  // namespace tessera
