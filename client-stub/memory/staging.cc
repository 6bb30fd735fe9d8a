#include "client-stub/memory/staging.h"

#include <algorithm>
#include <chrono>

#include "client-stub/session/session.h"

namespace tessera {
namespace {

// Large enough to hide a record's cost, small enough for several pieces in flight per copy and several copies at once.
constexpr uint64_t kPieceBytesMax = uint64_t{4} << 20;
constexpr uint64_t kPiecesMin = 8;

}  // namespace

Staging::Staging(std::span<std::byte> memory)
    : memory_(memory.first(memory.size() & ~(kGranuleBytes - 1))),
      piece_bytes_max_(std::min<uint64_t>(kPieceBytesMax, memory_.size() / kPiecesMin & ~(kGranuleBytes - 1))),
      ranges_(0, memory_.size(), kGranuleBytes) {}

// Takes back what was passed. Marks of one stream pass in order, those of different streams in any.
void Staging::Sweep(Session& session) {
  std::erase_if(pending_, [&](const Pending& one) REQUIRES(mutex_) {
    if (!session.marks().Passed(one.mark)) return false;
    session.marks().Close(one.mark);
    ranges_.Free(one.base);
    return true;
  });
}

std::optional<Staging::Piece> Staging::TryTake(Session& session, uint64_t bytes) {
  MutexLock lock(mutex_);
  auto range = ranges_.Allocate(bytes);
  if (!range && !pending_.empty()) {
    Sweep(session);
    range = ranges_.Allocate(bytes);
  }
  if (!range) return std::nullopt;
  return Piece{range->base, memory_.subspan(range->base, bytes)};
}

CUresult Staging::Take(Session& session, uint64_t bytes, Piece* piece) {
  for (;;) {
    if (auto taken = TryTake(session, bytes)) {
      *piece = *taken;
      return CUDA_SUCCESS;
    }
    uint64_t mark = 0;
    uint64_t returned = 0;
    {
      MutexLock lock(mutex_);
      if (!pending_.empty()) mark = pending_.front().mark;
      returned = returned_;
    }
    if (mark == 0) {  // every byte is held by threads that copy out of it
      if (session.gone()) return session.GoneResult();
      MutexLock lock(mutex_);
      if (returned_ == returned) change_.wait_for(mutex_, std::chrono::milliseconds(10));
      continue;
    }
    // Wait for the oldest piece, or for another thread to have copied out what it holds.
    const CUresult result = session.WaitUntil([&] {
      if (session.marks().Passed(mark)) return true;
      MutexLock lock(mutex_);
      return returned_ != returned || (!pending_.empty() && pending_.front().mark != mark);
    });
    if (result != CUDA_SUCCESS) return result;
  }
}

void Staging::ReturnAfter(const Piece& piece, uint64_t mark) {
  MutexLock lock(mutex_);
  pending_.push_back(Pending{piece.offset, mark});
}

void Staging::Return(const Piece& piece) {
  MutexLock lock(mutex_);
  ranges_.Free(piece.offset);
  ++returned_;
  change_.notify_all();
}

}  // namespace tessera
