// Names and layouts out of a cubin: an ELF file of machine EM_CUDA. Its code is not looked at.
// Sources: System V gABI, "ELF"; sections .nv.info.* and .nv.shared.* as nvcc 13 writes them.
#pragma once

#include <span>

#include "protocol/base/status.h"
#include "server/code_image/entries.h"

namespace tessera::code_image {

// `sm` is what the container said of the architecture, or 0; the file's own flags are used then. Extent of the file through
// CubinSize. Errors: kInvalidArgument, kUnsupported for another ELF class.
Result<CubinEntry> DecodeCubin(std::span<const std::byte> bytes, uint32_t sm);

// Bytes of the ELF file that begins at `bytes`, from its own tables.
Result<uint64_t> CubinSize(std::span<const std::byte> bytes);

}  // namespace tessera::code_image
