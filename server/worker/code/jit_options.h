// The JIT options of a load or link call (CUjit_option, driver API "Module Management"), as they travel: numbers by value;
// of the log buffers only the size, since the text goes back in the reply; outputs are filled in by the driver here.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

class JitOptions {
 public:
  static constexpr size_t kOptionsMax = 64;           // CUDA 13.0 knows 34
  static constexpr uint64_t kLogBytesMax = 64 << 10;  // per log; fits a reply record twice

  // False when there are too many options or an option cannot be forwarded (an unknown one, or one that carries pointers
  // into the client: CU_JIT_GLOBAL_SYMBOL_*, CU_JIT_REFERENCED_*).
  bool Set(std::span<const uint32_t> options, std::span<const uint64_t> values);

  // The arrays for the driver; valid while this object lives.
  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  CUjit_option* options() { return options_.data(); }
  void** values() { return values_.data(); }

  // Outputs, after the driver's call.
  std::string info_log() const { return LogText(info_log_, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES); }
  std::string error_log() const { return LogText(error_log_, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES); }
  float wall_time_ms() const;
  uint32_t threads_per_block() const;

 private:
  std::string LogText(const std::vector<char>& log, CUjit_option size_option) const;
  const void* const* Value(CUjit_option option) const;

  std::vector<CUjit_option> options_;
  std::vector<void*> values_;
  std::vector<char> info_log_;
  std::vector<char> error_log_;
};

}  // namespace tessera
