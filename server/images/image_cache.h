// Where a worker finds images that it need not be sent, and leaves those that it was.
#pragma once

#include <cstdint>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/image/image_key.h"

namespace tessera {

// Files of images hold the image and a zero byte behind it (the driver reads PTX as text). Any thread.
class ImageCache {
 public:
  virtual ~ImageCache() = default;
  // A file with the image, to be read; kNotFound when there is none of this name and size.
  virtual Result<UniqueFd> Find(const ImageKey& key, uint64_t bytes) = 0;
  // Has the image kept, if there is room. `file` is sealed (kImageSeals), stays the caller's, and is checked against its name.
  virtual void Offer(const ImageKey& key, uint64_t bytes, int file) = 0;
};

}  // namespace tessera
