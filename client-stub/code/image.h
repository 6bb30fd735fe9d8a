// Finds the bytes of an image that the application hands to a load call: the driver API passes a bare pointer, so its
// length has to be read from the image itself. Nothing is interpreted beyond that; the server's driver decodes it.
//
// Forms (NVIDIA's "fatbin" container has no public document; the layout was observed in nvcc 13 output):
//   wrapper    {u32 0x466243B1, u32 version, const void* data, const void* filename_or_list}; version 2: the last field
//              points to a NULL-terminated array of prelinked fatbins (programs built with -rdc=true)
//   fatbin     {u32 0xBA55ED50, u16 version, u16 header size, u64 payload size}
//   cubin      an ELF file
//   PTX        NUL-terminated text
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// The largest image that is forwarded; cuBLASLt's largest module, the biggest seen, has about 300 MiB.
constexpr uint64_t kImageBytesMax = uint64_t{2} << 30;
// The most prelinked members of one wrapper; NCCL, the biggest seen, has a few dozen.
constexpr size_t kImagePartsMax = 4096;

enum class ImageForm : uint32_t {
  kBare = 0,       // one part, handed to the driver as it is: fatbin, cubin or PTX
  kWrapper = 1,    // one part behind a version 1 wrapper
  kPrelinked = 2,  // the wrapper's own part, then its prelinked members
};

struct ImageParts {
  ImageForm form = ImageForm::kBare;
  std::vector<std::span<const std::byte>> parts;  // borrowed from the application
};

// Reads the application's memory behind `image`, as the driver would. `image` must not be null. Any thread.
Result<ImageParts> FindImageParts(const void* image);

}  // namespace tessera
