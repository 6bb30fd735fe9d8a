#include "server/emulator/driver/device/memory_share.h"

#include <time.h>

#include <algorithm>

#include "protocol/base/clock.h"

namespace tessera::emulator {

MemoryShare::Sum MemoryShare::OfOthers() const {
  Sum sum;
  const uint32_t end = std::min(slots_end_.load(), kDeviceSlotsMax);
  for (uint32_t slot = 0; slot < end; ++slot) {
    if (slot == slot_) continue;
    // What is asked for first: it becomes used before it is no longer asked for.
    sum.asked_bytes = std::min(total_bytes_, sum.asked_bytes + std::min(total_bytes_, page_.slots[slot].asked_bytes.load()));
    sum.used_bytes = std::min(total_bytes_, sum.used_bytes + std::min(total_bytes_, page_.slots[slot].used_bytes.load()));
  }
  return sum;
}

bool MemoryShare::Take(uint64_t bytes) {
  if (bytes > total_bytes_) return false;
  DevicePage::Slot& own = page_.slots[slot_];
  std::lock_guard lock(mutex_);
  const uint64_t deadline_ns = MonotonicNs() + kAskNs;
  for (uint64_t pause_ns = 1000 * (slot_ % 32 + 1);; pause_ns *= 2) {
    own.asked_bytes = bytes;
    const Sum others = OfOthers();
    const uint64_t wanted_bytes = used_bytes_ + others.used_bytes + bytes;
    const bool fits = wanted_bytes + others.asked_bytes <= total_bytes_;
    if (fits) {
      used_bytes_ += bytes;
      own.used_bytes = used_bytes_;
    }
    own.asked_bytes = 0;
    if (fits) return true;
    if (wanted_bytes > total_bytes_ || MonotonicNs() > deadline_ns) return false;
    // Others ask at this moment for what is left.
    const timespec pause{0, static_cast<long>(std::min<uint64_t>(pause_ns, 5'000'000))};
    nanosleep(&pause, nullptr);
  }
}

void MemoryShare::GiveBack(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
  page_.slots[slot_].used_bytes = used_bytes_;
}

uint64_t MemoryShare::used_by_all() const {
  std::lock_guard lock(mutex_);
  return std::min(total_bytes_, used_bytes_ + OfOthers().used_bytes);
}

}  // namespace tessera::emulator
