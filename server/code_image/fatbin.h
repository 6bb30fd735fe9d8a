// Entries of a bare fatbin, decompressed.
#pragma once

#include <span>

#include "protocol/base/status.h"
#include "server/code_image/entries.h"

namespace tessera::code_image {

// Whether machine code for `code_sm` runs on a device of capability `sm`: same major version, minor version not above.
bool RunsOn(uint32_t code_sm, uint32_t sm);

// Adds the entries of the fatbin that begins at `bytes` to `image` as of part `part`. `budget` is what decompression may
// still produce; it is reduced by what it did. `only_sm` and errors as DecodeImage.
Status DecodeFatbin(std::span<const std::byte> bytes, uint32_t part, uint32_t only_sm, uint64_t* budget, Image* image);

// Header and payload.
Result<uint64_t> FatbinSize(std::span<const std::byte> bytes);

// Makes a PTX entry of the text of `bytes`: up to its first NUL, architecture from its .target when `sm` is 0.
PtxEntry MakePtx(std::span<const std::byte> bytes, uint32_t sm, uint32_t part);

}  // namespace tessera::code_image
