// Hands out parts of the staging segment. Bytes between the application's ordinary memory and the server pass through it in
// pieces. A piece is reused once the mark behind it has passed.
//
// All threads of the client share it. Any thread; Take() may wait for the server to finish earlier pieces.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class Session;

class Staging {
 public:
  // Pieces start at multiples of this: no two pieces share a cache line or, for DMA, an alignment unit.
  static constexpr uint64_t kGranuleBytes = 4096;

  explicit Staging(std::span<std::byte> memory);

  struct Piece {
    uint64_t offset = 0;
    std::span<std::byte> bytes;
  };

  // A piece of `bytes` (at most piece_bytes_max()), if one is free now or after taking back pieces whose marks have passed.
  std::optional<Piece> TryTake(Session& session, uint64_t bytes) EXCLUDES(mutex_);
  // As above, but waits for marks and for other threads to return pieces. A thread that holds pieces itself must not call it.
  // kServerGone: the session has ended.
  CUresult Take(Session& session, uint64_t bytes, Piece* piece) EXCLUDES(mutex_);
  // The piece is in use until `mark` is passed (H2D). The mark is closed here.
  void ReturnAfter(const Piece& piece, uint64_t mark) EXCLUDES(mutex_);
  // The piece is free now (D2H, once copied out).
  void Return(const Piece& piece) EXCLUDES(mutex_);

  uint64_t piece_bytes_max() const { return piece_bytes_max_; }

 private:
  struct Pending {
    uint64_t base;
    uint64_t mark;
  };
  void Sweep(Session& session) REQUIRES(mutex_);

  const std::span<std::byte> memory_;
  const uint64_t piece_bytes_max_;
  Mutex mutex_;
  ConditionVariable change_;
  RangeAllocator ranges_ GUARDED_BY(mutex_);
  std::deque<Pending> pending_ GUARDED_BY(mutex_);  // oldest first
  uint64_t returned_ GUARDED_BY(mutex_) = 0;        // counts Return() calls: waiters look again
};

}  // namespace tessera
