#include "server/emulator/driver/core/local_memory.h"

#include <algorithm>

#include "server/emulator/driver/device/device_attributes.h"
#include "server/emulator/driver/device/memory_table.h"

namespace tessera::emulator {

size_t LocalMemory::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

CUresult LocalMemory::Set(size_t bytes) {
  std::lock_guard lock(mutex_);
  return SetLocked(bytes);
}

CUresult LocalMemory::Raise(size_t bytes) {
  std::lock_guard lock(mutex_);
  return bytes <= limit_ ? CUDA_SUCCESS : SetLocked(bytes);
}

void LocalMemory::Clear() {
  std::lock_guard lock(mutex_);
  SetLocked(kFirstLimit);
}

CUresult LocalMemory::SetLocked(size_t bytes) {
  constexpr uint64_t kPieceBytes = 2 << 20;
  constexpr uint64_t kThreads = uint64_t{kMultiprocessors} * kMaxThreadsPerMultiprocessor;
  const uint64_t beyond = bytes - std::min(bytes, kFirstLimit);
  RETURN_IF(beyond > device_.total_bytes() / kThreads, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t wanted = RoundUp(beyond * kThreads, kPieceBytes);
  RETURN_IF(wanted > taken_bytes_ && !device_.Charge(wanted - taken_bytes_), CUDA_ERROR_OUT_OF_MEMORY);
  if (wanted < taken_bytes_) device_.Discharge(taken_bytes_ - wanted);
  taken_bytes_ = wanted;
  limit_ = bytes;
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
