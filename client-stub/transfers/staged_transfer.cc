#include "client-stub/transfers/staged_transfer.h"

#include <algorithm>
#include <utility>

#include "client-stub/session/session.h"
#include "generated/messages/copy.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

constexpr uint64_t kShortPieceBytes = uint64_t{256} << 10;

uint64_t RoundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

uint64_t PieceBytes(const ClientMemory& memory) { return std::min(kPieceBytes, memory.staging().piece_bytes_max()); }

uint64_t NextPieceBytes(uint64_t bytes, uint64_t done, uint64_t largest) {
  constexpr uint64_t kGrowth = 4;  // of all that is copied, with each piece
  constexpr uint64_t kPageBytes = 4096;
  const uint64_t left = bytes - done;
  if (left < 2 * kShortPieceBytes) return std::min(left, largest);
  if (bytes <= 4 * kShortPieceBytes) return std::min({RoundUp(bytes / 2, kPageBytes), left, largest});
  return std::min({std::max((kGrowth - 1) * done, kShortPieceBytes), left, largest});
}

uint64_t NextPieceBytes(Session& session, uint64_t bytes, uint64_t done) {
  constexpr uint64_t kPiecesOverLink = 4;
  const uint64_t largest = PieceBytes(session.memory());
  if (!session.mirrored()) return NextPieceBytes(bytes, done, largest);
  return std::min({std::max(RoundUp(bytes / kPiecesOverLink, kShortPieceBytes), kShortPieceBytes), largest, bytes - done});
}

CUresult StagedUpload::Push(uint64_t bytes, const Fill& fill, const Send& send) {
  Session& session = call_.session();
  Staging::Piece piece;
  if (const auto taken = memory_.staging().TryTake(session, bytes)) {
    piece = *taken;
  } else if (!waits_) {
    return Session::kNotAppended;
  } else if (const CUresult result = memory_.staging().Take(session, bytes, &piece); result != CUDA_SUCCESS) {
    return call_.Fail(result);
  }
  fill(piece.bytes);
  if (session.mirrored()) {
    const Status published = session.channel().Publish(kStagingSegment, piece.offset, bytes);
    if (!published.ok()) {
      LogDebug("staging piece could not be published: {}", published.message());
      memory_.staging().Return(piece);
      return call_.Fail(kServerGone);
    }
  }
  const uint64_t mark = session.marks().Open();
  const CUresult result = send(piece.offset, mark);
  if ((result != CUDA_SUCCESS && session.gone()) || result == Session::kNotAppended) {
    session.marks().Close(mark);
    memory_.staging().Return(piece);
    return result;
  }
  // Also after a failure that the server reports: it passes the mark when it is done with the piece.
  memory_.staging().ReturnAfter(piece, mark);
  return result;
}

StagedDownload::StagedDownload(BasicCall& call)
    : call_(call), memory_(call.session().memory()), in_flight_max_(call.session().mirrored() ? kInFlightOverLink : kInFlight) {}

CUresult StagedDownload::Push(uint64_t bytes, Drain drain, const Send& send) {
  if (result_ != CUDA_SUCCESS) return result_;
  Session& session = call_.session();
  Staging::Piece piece;
  for (;;) {
    if (flights_.size() < in_flight_max_) {
      if (auto taken = memory_.staging().TryTake(session, bytes)) {
        piece = *taken;
        break;
      }
      if (flights_.empty()) {
        const CUresult result = memory_.staging().Take(session, bytes, &piece);
        if (result != CUDA_SUCCESS) return result_ = call_.Fail(result);
        break;
      }
    }
    FinishOldest();
    if (result_ != CUDA_SUCCESS) return result_;
  }
  const uint64_t mark = session.marks().Open();
  const CUresult result = send(piece.offset, mark);
  if (result != CUDA_SUCCESS) {
    session.marks().Close(mark);
    memory_.staging().Return(piece);
    return result_ = result;
  }
  flights_.push_back(Flight{piece, mark, std::move(drain)});
  return CUDA_SUCCESS;
}

void StagedDownload::FinishOldest() {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  const CUresult result = call_.session().WaitForMark(flight.mark);
  if (result == CUDA_SUCCESS && result_ == CUDA_SUCCESS) flight.drain(flight.piece.bytes);
  if (result != CUDA_SUCCESS && result_ == CUDA_SUCCESS) result_ = call_.Fail(result);
  memory_.staging().Return(flight.piece);
}

CUresult StagedDownload::Finish() {
  while (!flights_.empty()) FinishOldest();
  return result_;
}

CUresult WaitForStream(BasicCall& call, HandleId stream) {
  cuMemcpyAsyncRequest request;
  request.stream = stream;
  return call.SyncOwn(request);
}

}  // namespace tessera
