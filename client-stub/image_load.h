// The steps that loading a module, loading a library and adding to a link share on the client.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client-stub/call.h"
#include "client-stub/image.h"

namespace tessera {

// The application's JIT options, and where it wants the outputs. Borrows its arrays until the outputs are written.
class ClientJitOptions {
 public:
  // False when an option's value array is missing, or there are more options than any toolkit knows.
  bool Read(unsigned count, const CUjit_option* options, void** values);
  const std::vector<uint32_t>& options() const { return options_; }
  const std::vector<uint64_t>& values() const { return wire_values_; }

  // Writes logs, their sizes, the wall time and the block size to where the application asked for them.
  void WriteOutputs(std::string_view info_log, std::string_view error_log, float wall_time_ms,
                    uint32_t threads_per_block) const;

 private:
  void WriteLog(std::string_view text, CUjit_option buffer, CUjit_option size) const;

  std::vector<uint32_t> options_;
  std::vector<uint64_t> wire_values_;
  std::vector<void**> slots_;  // where each value stands in the application's array
};

// Sends the parts of an image on behalf of `call`; `blobs` receives one number per part.
CUresult SendParts(const Call& call, const ImageParts& parts, std::vector<uint64_t>* blobs);
// The same for the image behind a pointer, which must not be null.
CUresult SendImage(const Call& call, const void* image, ImageForm* form, std::vector<uint64_t>* blobs);

// Reads a whole file as an image with a NUL behind it. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read (cuModuleLoad).
CUresult ReadImageFile(const char* path, std::vector<std::byte>* bytes);

}  // namespace tessera
