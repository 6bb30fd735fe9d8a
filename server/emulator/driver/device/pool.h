// Stream-ordered memory pools. Freed memory is never handed out again: a pool only counts what it would have kept, so
// that its attributes and the device's free memory read as natively while every stale pointer still faults.
// Source: CUDA driver API, "Stream Ordered Memory Allocator".
#pragma once

#include <memory>
#include <mutex>

#include "server/emulator/driver/device/device.h"

namespace tessera::emulator {

class Pool {
 public:
  Pool(Device& device, bool is_default, uint64_t max_bytes) : device_(device), is_default_(is_default), max_bytes_(max_bytes) {
    read_mask = write_mask = 1u << device.number();
  }
  // A pool for several processes, which know it by `mark`: made here, or imported from another.
  Pool(Device& device, uint64_t mark, bool imported, uint64_t max_bytes = 0)
      : device_(device), is_default_(false), max_bytes_(max_bytes), mark_(mark), imported_(imported) {
    read_mask = write_mask = 1u << device.number();
  }
  ~Pool();

  int device() const { return device_.number(); }
  bool is_default() const { return is_default_; }
  bool shared() const { return mark_ != 0; }
  bool imported() const { return imported_; }
  uint64_t mark() const { return mark_; }
  // Counts `bytes` in; false when the device or the pool has no more.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);
  // Gives what is kept beyond `keep_bytes` in total back to the device.
  void TrimTo(uint64_t keep_bytes);

  std::mutex mutex;  // guards everything below
  uint64_t used_bytes = 0, used_high_bytes = 0;
  uint64_t kept_bytes = 0, reserved_high_bytes = 0;
  uint64_t release_threshold_bytes = 0;
  int reuse_event = 1, reuse_opportunistic = 1, reuse_internal = 1;
  uint32_t read_mask = 0, write_mask = 0;

 private:
  void TrimLocked(uint64_t keep_bytes);
  Device& device_;
  const bool is_default_;
  const uint64_t max_bytes_;  // 0: no bound
  const uint64_t mark_ = 0;   // 0: of this process alone
  const bool imported_ = false;
};
using PoolPtr = std::shared_ptr<Pool>;

}  // namespace tessera::emulator
