// What the launch functions of CUDA 3 and older keep per function between calls: block shape, shared memory and
// parameters, set one at a time and used by the next cuLaunch, cuLaunchGrid or cuLaunchGridAsync.
// Source: CUDA driver API, "Execution Control [DEPRECATED]".
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

// The most bytes of parameters a kernel may have (CUDA programming guide, "Kernel parameters", from CUDA 12.1).
inline constexpr size_t kParameterBytesMax = 32764;

// Any thread. Every function: CUDA_SUCCESS, or CUDA_ERROR_INVALID_VALUE and nothing changed.
class PreparedLaunch {
 public:
  struct Settings {
    std::array<unsigned, 3> block{1, 1, 1};  // until it is set, as driver 580 has it
    unsigned shared_bytes = 0;
    std::vector<std::byte> parameters;  // as many bytes as cuParamSetSize said
  };

  // Numbers of threads, each at least 1.
  CUresult SetBlock(int x, int y, int z) EXCLUDES(mutex_);
  void SetShared(unsigned bytes) EXCLUDES(mutex_);
  // How many bytes of parameters the next launch passes. Bytes written beyond that are kept.
  CUresult SetParameterBytes(unsigned bytes) EXCLUDES(mutex_);
  // Writes parameter bytes at `offset`, before or after their number is set.
  CUresult Write(int offset, std::span<const std::byte> bytes) EXCLUDES(mutex_);

  Settings Get() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::array<unsigned, 3> block_ GUARDED_BY(mutex_){1, 1, 1};
  unsigned shared_bytes_ GUARDED_BY(mutex_) = 0;
  unsigned parameter_bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<std::byte> written_ GUARDED_BY(mutex_);
};

}  // namespace tessera
