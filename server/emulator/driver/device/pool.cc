#include "server/emulator/driver/device/pool.h"

#include <algorithm>

namespace tessera::emulator {

Pool::~Pool() {
  if (kept_bytes != 0) device_.Discharge(kept_bytes);
}

bool Pool::Take(uint64_t bytes) {
  std::lock_guard lock(mutex);
  if (max_bytes_ != 0 && used_bytes + bytes > max_bytes_) return false;
  const uint64_t from_kept = std::min(bytes, kept_bytes);
  if (bytes != from_kept && !device_.Charge(bytes - from_kept)) return false;
  kept_bytes -= from_kept;
  used_bytes += bytes;
  used_high_bytes = std::max(used_high_bytes, used_bytes);
  reserved_high_bytes = std::max(reserved_high_bytes, used_bytes + kept_bytes);
  return true;
}

void Pool::GiveBack(uint64_t bytes) {
  std::lock_guard lock(mutex);
  used_bytes -= bytes;
  kept_bytes += bytes;
  if (used_bytes + kept_bytes > release_threshold_bytes) TrimLocked(release_threshold_bytes);
}

void Pool::TrimTo(uint64_t keep_bytes) {
  std::lock_guard lock(mutex);
  TrimLocked(keep_bytes);
}

void Pool::TrimLocked(uint64_t keep_bytes) {
  const uint64_t reserved = used_bytes + kept_bytes;
  if (reserved <= keep_bytes) return;
  const uint64_t release = std::min(kept_bytes, reserved - keep_bytes);
  kept_bytes -= release;
  device_.Discharge(release);
}

}  // namespace tessera::emulator
