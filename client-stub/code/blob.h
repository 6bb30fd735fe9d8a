// Sends arguments, and fetches results, that are too large for one record (images, linked cubins).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client-stub/session/basic_call.h"

namespace tessera {

// Writes `bytes` to the server in pieces, on behalf of a call, and sets `blob` to the number that names them in the record of
// that call. The bytes were read when it returns. CUDA_SUCCESS, or why the session cannot carry them. Any thread.
CUresult SendBlob(const BasicCall& user, std::span<const std::byte> bytes, uint64_t* blob);

// A number for a blob, which WriteBlob() sends.
uint64_t NewBlob();
CUresult WriteBlob(const BasicCall& user, uint64_t blob, std::span<const std::byte> bytes);
// Names a blob that the server may have; it is written only when it is missing (protocol/image).
CUresult NameBlob(const BasicCall& user, uint64_t blob, std::span<const std::byte> bytes);

// Reads a result of `size_bytes` that a reply named, and releases it on the server. CUDA_ERROR_UNKNOWN for one that is larger
// than any image (kImageBytesMax), or does not come whole.
CUresult FetchBlob(const BasicCall& user, uint64_t blob, uint64_t size_bytes, std::vector<std::byte>* bytes);

}  // namespace tessera
