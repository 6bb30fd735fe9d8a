#include "client-stub/code/prepared_launch.h"

#include <algorithm>

namespace tessera {

CUresult PreparedLaunch::SetBlock(int x, int y, int z) {
  // What no device takes (CUDA programming guide, "Technical Specifications per Compute Capability").
  if (x <= 0 || y <= 0 || z <= 0 || x > 1024 || y > 1024 || z > 64 || x * y > 1024 || x * y * z > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MutexLock lock(mutex_);
  block_ = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
  return CUDA_SUCCESS;
}

void PreparedLaunch::SetShared(unsigned bytes) {
  MutexLock lock(mutex_);
  shared_bytes_ = bytes;
}

CUresult PreparedLaunch::SetParameterBytes(unsigned bytes) {
  if (bytes > kParameterBytesMax) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(mutex_);
  parameter_bytes_ = bytes;
  return CUDA_SUCCESS;
}

CUresult PreparedLaunch::Write(int offset, std::span<const std::byte> bytes) {
  if (offset < 0 || static_cast<size_t>(offset) > kParameterBytesMax || bytes.size() > kParameterBytesMax - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MutexLock lock(mutex_);
  written_.resize(std::max(written_.size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), written_.begin() + offset);
  return CUDA_SUCCESS;
}

PreparedLaunch::Settings PreparedLaunch::Get() const {
  MutexLock lock(mutex_);
  Settings settings{block_, shared_bytes_, written_};
  settings.parameters.resize(parameter_bytes_);
  return settings;
}

}  // namespace tessera
