// The client's steps that are common to loading a module, loading a library and adding to a link.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client-stub/code/image.h"
#include "client-stub/session/basic_call.h"
#include "protocol/image/image_key.h"

namespace tessera {

// The application's JIT options, and its places for outputs. Borrows the application's arrays until the outputs are written.
class ClientJitOptions {
 public:
  // False when an option's value array is missing, or there are more options than any toolkit knows.
  bool Read(unsigned count, const CUjit_option* options, void** values);
  const std::vector<uint32_t>& options() const { return options_; }
  const std::vector<uint64_t>& values() const { return wire_values_; }

  // Writes logs, their sizes, the wall time and the block size to where the application asked for them.
  void WriteOutputs(std::string_view info_log, std::string_view error_log, float wall_time_ms, uint32_t threads_per_block) const;

 private:
  void WriteLog(std::string_view text, CUjit_option buffer, CUjit_option size) const;

  std::vector<uint32_t> options_;
  std::vector<uint64_t> wire_values_;
  std::vector<void**> slots_;  // where each value stands in the application's array
};

// An image on its way to a server that may have it already: the name of each large part goes first, its bytes only if the server
// asks for them.
class ImageUpload {
 public:
  // On behalf of `call`, which outlives it, as does the application's memory behind `parts`.
  ImageUpload(BasicCall& call, const ImageParts& parts) : call_(call), parts_(parts) {}

  // Makes the load call `request` with the image before it. `reply` has the driver's code in `result`. If the server misses the
  // image it is sent, and the call is made again. Returns the call's result.
  template <typename Request, typename Reply>
  CUresult Sync(Request& request, Reply* reply) {
    CUresult result = Begin();
    if (result != CUDA_SUCCESS) return call_.Fail(result);
    request.form = static_cast<uint32_t>(parts_.form);
    request.blobs.Borrow(blobs_);
    result = call_.Sync(request, reply);
    if (result != CUDA_SUCCESS || !IsMissing(reply->result)) return result;
    result = SendMissing(reply->result);
    if (result != CUDA_SUCCESS) return call_.Fail(result);
    result = call_.Sync(request, reply);
    // No server of ours asks for an image that it was sent, and that answer is no result of CUDA.
    return result == CUDA_SUCCESS && IsMissing(reply->result) ? call_.Fail(CUDA_ERROR_UNKNOWN) : result;
  }

 private:
  static bool IsMissing(int32_t result) { return result == kImageMissing || result == kNoImageCache; }
  // Names or sends every part.
  CUresult Begin();
  // Sends the parts that were only named.
  CUresult SendMissing(int32_t why);

  BasicCall& call_;
  const ImageParts& parts_;
  std::vector<uint64_t> blobs_;  // one number per part
  std::vector<size_t> named_;    // indices of the parts that were not sent
};

// Finds the parts of the image behind a pointer, which must not be null. CUDA_ERROR_INVALID_IMAGE, with a sentence in the log.
CUresult FindParts(const void* image, ImageParts* parts);

// Reads a whole file as an image with a NUL behind it. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read (cuModuleLoad).
CUresult ReadImageFile(const char* path, std::vector<std::byte>* bytes);

}  // namespace tessera
