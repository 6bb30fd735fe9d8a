// Reads what a module or library load is handed: fatbins, cubins, PTX text. All bytes are untrusted.
//
// A fatbin wrapper (0x466243B1) holds pointers, so the caller flattens it into parts first: one bare fatbin for version 1,
// the fatbin and every member of the prelinked list for version 2. Any thread; nothing is shared.
// Sources: read off files that nvcc 13 writes (there is no public description of the container); ELF: gABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "server/code_image/entries.h"

namespace tessera::code_image {

// What an image comes down to for one device.
struct Selection {
  std::vector<std::string> ptx_texts;  // link together with Module::Compile; empty when only machine code fits
  std::vector<CubinKernel> kernels;    // of cubins, when ptx_texts is empty: names and layouts, nothing that runs
  std::vector<CubinVariable> variables;
};

// Decodes every part: a bare fatbin (only its header and payload count, what follows is ignored), a cubin ELF, or PTX text.
// Errors: kInvalidArgument for bytes that are none of these or contradict themselves, kResourceExhausted when the bound on
// decompressed bytes is passed, kUnsupported for a compression or ELF class that is not known.
// With `only_sm`, what a device of that compute capability cannot run is named in the image but not unpacked: libraries carry
// their code for seven architectures.
Result<Image> DecodeImage(const std::vector<std::span<const std::byte>>& parts, uint32_t only_sm = 0);

// Bytes of the bare fatbin, cubin or PTX text that begins at `bytes`; for a file of several fatbins, of the first.
Result<uint64_t> PartSize(std::span<const std::byte> bytes);

// Chooses for compute capability `sm` (90 for 9.0): per part the PTX of the highest architecture that is not above it
// (variants with suffix only for exactly their own architecture); cubins only when no part has such PTX.
// kNotFound when nothing fits, with the architectures that are there.
Result<Selection> SelectImage(const Image& image, uint32_t sm);

}  // namespace tessera::code_image
