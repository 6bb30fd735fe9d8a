// A directory of images by name, bounded: the one that was used longest ago goes first. Several processes may share one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/image/image_key.h"

namespace tessera {

class ImageDirectory {
 public:
  // Makes the directory if need be, for this user alone. kPermissionDenied when it is another user's, or others may write to it;
  // `also`: the user who may have it besides.
  static Result<ImageDirectory> Open(const std::string& path, uint64_t bytes_max, uid_t also = 0);

  // As ImageCache. The content of a file is what Add() has checked: nobody else may write here.
  Result<UniqueFd> Find(const ImageKey& key, uint64_t bytes);
  // Keeps a copy of the image in `file`. kInvalidArgument when the file is not sealed or is not the image of this name,
  // kResourceExhausted when it is larger than the whole, or the disk is full.
  Status Add(const ImageKey& key, uint64_t bytes, int file);

  // Gives the directory and the images to another user, as whom this process goes on. Root's alone.
  Status HandOver(uid_t user);

  const std::string& path() const { return path_; }

 private:
  ImageDirectory(std::string path, UniqueFd directory, uint64_t bytes_max)
      : path_(std::move(path)), directory_(std::move(directory)), bytes_max_(bytes_max) {}

  std::vector<std::string> Names() const;
  // Removes what was used longest ago until `bytes` more fit, and files that were never finished.
  void MakeRoom(uint64_t bytes);

  std::string path_;
  UniqueFd directory_;
  uint64_t bytes_max_;
};

}  // namespace tessera
