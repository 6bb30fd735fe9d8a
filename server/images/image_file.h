// An image in a file, mapped to be read: in memory while it arrives, or in a directory of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Whether a file of another process is an image of `bytes` in memory that nobody can change any more (memfd_create(2), sealed). A
// file of a disk, or one that can still be written, is none: kInvalidArgument.
Status CheckSealedImage(int file, uint64_t bytes);

class ImageFile {
 public:
  // Maps an image of `bytes` and the zero behind it. kInvalidArgument when the file has another size, or is in memory and not
  // sealed: it must not change under who reads it.
  static Result<ImageFile> Map(int file, uint64_t bytes);
  ImageFile(ImageFile&& other) noexcept;
  ImageFile& operator=(ImageFile&&) = delete;
  ~ImageFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }  // data()[size()] is 0

 private:
  ImageFile(const std::byte* data, uint64_t size) : data_(data), size_(size) {}

  const std::byte* data_;
  uint64_t size_;
};

// An image that arrives in pieces, in order.
class ImageReceiver {
 public:
  static Result<ImageReceiver> Make(uint64_t bytes);

  uint64_t received() const { return received_; }
  // The next piece; at most what is left. False when there is no memory.
  bool Append(std::span<const std::byte> piece);
  // Once it is complete: nobody can change it any more. The file stays this object's.
  Result<ImageFile> Seal();
  int file() const { return file_.get(); }

 private:
  ImageReceiver(UniqueFd file, uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  UniqueFd file_;
  uint64_t bytes_;
  uint64_t received_ = 0;
};

}  // namespace tessera
