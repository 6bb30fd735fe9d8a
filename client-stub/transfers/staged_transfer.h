// Moves bytes between ordinary host memory and the server through the staging segment, several pieces in flight.
//
// Both classes are used by the thread that makes the call. "send" appends one record: (offset in staging, mark) -> result. With
// Session::kNotAppended an upload ends as if it had not begun.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

// A piece of this size is copied by several threads and still leaves many in flight.
inline constexpr uint64_t kPieceBytes = uint64_t{2} << 20;
// Up to this many bytes travel in the record itself: cheaper than a piece with a mark.
inline constexpr uint64_t kInlineBytesMax = uint64_t{32} << 10;

// Largest piece of this session (staging may be small).
uint64_t PieceBytes(const ClientMemory& memory);
// The next piece of a copy of `bytes`, of which `done` are in pieces already. The first is short both ways: on the way to the
// device no DMA begins before the processor has copied it, and on the way back the processor, which is the slower of the two,
// waits for its DMA. The others grow to `largest`, since the GPU takes some 3 us more for each (driver 580, H200).
//
//   1 MiB                       two halves: a quarter and the rest take longer, more pieces no less
//   16 MiB, pieces to 2 MiB     256, 768 KiB, 7 of 2 MiB, 1 MiB
//   256 MiB, pieces to 16 MiB   256, 768 KiB, 3, 12 MiB, 15 of 16 MiB
uint64_t NextPieceBytes(uint64_t bytes, uint64_t done, uint64_t largest);
// The same through staging. Over a link, which takes longer for a piece than the processor does, all pieces of a short
// copy are short.
uint64_t NextPieceBytes(Session& session, uint64_t bytes, uint64_t done);

// To the server. The source is read when Push returns.
class StagedUpload {
 public:
  using Fill = std::function<void(std::span<std::byte> to)>;
  using Send = std::function<CUresult(uint64_t offset, uint64_t mark)>;

  // `waits`: Push() waits for room that earlier work may have. Otherwise it returns Session::kNotAppended if there is no room.
  explicit StagedUpload(BasicCall& call, bool waits = true) : call_(call), memory_(call.session().memory()), waits_(waits) {}
  // `bytes` is at most PieceBytes().
  CUresult Push(uint64_t bytes, const Fill& fill, const Send& send);

 private:
  BasicCall& call_;
  ClientMemory& memory_;
  const bool waits_;
};

// From the server. `drain` gets the bytes of a piece once they have arrived; everything has arrived when Finish returns.
class StagedDownload {
 public:
  using Drain = std::function<void(std::span<const std::byte> from)>;
  using Send = std::function<CUresult(uint64_t offset, uint64_t mark)>;

  explicit StagedDownload(BasicCall& call);
  // Waits for what is in flight.
  ~StagedDownload() { Finish(); }
  StagedDownload(const StagedDownload&) = delete;
  StagedDownload& operator=(const StagedDownload&) = delete;

  // The first failure of this piece or of an earlier one.
  CUresult Push(uint64_t bytes, Drain drain, const Send& send);
  CUresult Finish();

 private:
  // Pieces in flight for one copy: DMA and the threads that copy out overlap, and others find room. Over a link there are more,
  // since each takes longer.
  static constexpr size_t kInFlight = 4;
  static constexpr size_t kInFlightOverLink = 8;
  struct Flight {
    Staging::Piece piece;
    uint64_t mark;
    Drain drain;
  };
  void FinishOldest();

  BasicCall& call_;
  ClientMemory& memory_;
  const size_t in_flight_max_;
  std::deque<Flight> flights_;
  CUresult result_ = CUDA_SUCCESS;
};

// Waits until everything enqueued on the stream (as Call::UseStream gave it) is done, through an empty copy.
CUresult WaitForStream(BasicCall& call, HandleId stream);

}  // namespace tessera
