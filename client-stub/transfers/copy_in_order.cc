#include "client-stub/transfers/copy_in_order.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/stream_visit.h"
#include "client-stub/transfers/publish.h"
#include "client-stub/transfers/staged_transfer.h"

namespace tessera {
namespace {

// Pieces that a shadow has room for: what one's DMA, the filling or emptying of others and asking for the next need, or
// as many as are on their way to a server on another host while one is asked for. More than the caches of the threads
// have, too: what a GPU writes while cores have the old bytes takes it longer (H200: 27 GB/s with 8 MiB, 44 with 16).
constexpr size_t kPlacesMin = 2;
constexpr size_t kPlacesMax = 8;
constexpr uint64_t kShadowBytes = uint64_t{64} << 20;  // but for copies whose pieces are larger
constexpr uint64_t kLargestPieceMax = uint64_t{32} << 20;
constexpr uint64_t kPiecesOfLargeCopy = 16;
constexpr uint64_t kPlaceAlignment = 256;
// Over a link small pieces overlap best, so a copy has more of them, as long as few visits wait. A piece is three entries of
// the driver's queue for its stream, which takes 1,021 (measured: driver 580, H200). Beyond that the server waits in the
// driver, and so does the program's next question, behind a kernel that perhaps waits for the program.
constexpr uint64_t kPiecesOverLink = 64;
constexpr uint64_t kWaitingVisitsMax = 64;

// One copy on its way. Piece k uses place k % places of the shadow.
struct Transfer {
  Session& session;
  const std::vector<OrderedPiece> pieces;
  const size_t places;
  const uint64_t place_bytes;            // the largest piece fits
  uint64_t base = 0;                     // of the shadow
  std::shared_ptr<HeldShadow> shadow{};  // of visits alone

  uint64_t PlaceOf(size_t piece) const { return base + piece % places * place_bytes; }
  // Nothing where the server's driver has refused the shadow: the program hears of that, and its memory stays as it is.
  void Move(size_t piece) const {
    if (!shadow->refused(session)) pieces[piece].move(reinterpret_cast<std::byte*>(PlaceOf(piece)));
  }
};

// A copy that is being enqueued.
class Enqueuing {
 public:
  Enqueuing(BasicCall& call, HandleId stream, std::vector<OrderedPiece> pieces)
      : call_(call), stream_(stream), pool_(call.session().memory().shadows()) {
    uint64_t largest = 1;
    for (const OrderedPiece& piece : pieces) largest = std::max(largest, piece.bytes);
    const size_t places = std::min(pieces.size(), std::clamp(kShadowBytes / largest, kPlacesMin, kPlacesMax));
    const uint64_t place_bytes = (largest + kPlaceAlignment - 1) & ~(kPlaceAlignment - 1);
    transfer_ = std::make_shared<Transfer>(Transfer{call.session(), std::move(pieces), places, place_bytes});
  }

  CUresult Upload() { return Leave(Begin() ? EnqueueUpload() : call_.result()); }
  CUresult Download() { return Leave(Begin() ? EnqueueDownload() : call_.result()); }

 private:
  size_t count() const { return transfer_->pieces.size(); }

  bool Begin() {
    const uint64_t bytes = transfer_->places * transfer_->place_bytes;
    if (pool_.TakeInOrder(call_, stream_, bytes, &shadow_) != CUDA_SUCCESS) return false;
    transfer_->shadow = shadow_;
    transfer_->base = shadow_->address();
    return true;
  }
  CUresult Leave(CUresult result) {
    if (shadow_ == nullptr) return result;
    if (result == CUDA_SUCCESS) {
      pool_.LeaveInOrder(call_, stream_, shadow_);
    } else {
      shadow_->Lose();  // what was enqueued still uses it
    }
    return result;
  }

  // All places are free when the stream comes to the copy, and again behind the DMA that reads them: so far ahead pieces are
  // asked for.
  CUresult EnqueueUpload() {
    for (size_t asked = 0, sent = 0; sent < count(); ++sent) {
      const size_t end = std::min(count(), sent + transfer_->places);
      const uint64_t ahead = end - sent - 1;  // this piece is there
      CUresult result = CUDA_SUCCESS;
      if (asked == end) result = AwaitVisits(call_, stream_, ahead);
      for (; result == CUDA_SUCCESS && asked < end; ++asked) {
        result = AskToFill(asked, asked + 1 == end ? ahead : kAwaitsNoVisit);
      }
      if (result != CUDA_SUCCESS) return result;
      const bool last = sent + 1 == count();
      const uint64_t mark = last ? call_.session().marks().Open() : 0;
      result = transfer_->pieces[sent].send(transfer_->PlaceOf(sent), mark);
      if (last) pool_.HoldUntil(mark, shadow_);  // a mark of a copy that could not be sent is never passed
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }
  CUresult AskToFill(size_t piece, uint64_t ahead) {
    const auto fill = [transfer = transfer_, piece](const GoOn& go_on) {
      transfer->Move(piece);
      PublishFromVisit(transfer->session, transfer->PlaceOf(piece), transfer->pieces[piece].bytes);
      go_on();
    };
    return VisitStream(call_, stream_, fill, Range{}, ahead);
  }

  // A DMA goes ahead of the visits that empty the other places. What comes after the copy does not.
  CUresult EnqueueDownload() {
    const size_t places = transfer_->places;
    for (size_t piece = 0; piece < count(); ++piece) {
      CUresult result = transfer_->pieces[piece].send(transfer_->PlaceOf(piece), 0);
      if (result != CUDA_SUCCESS) return result;
      const bool last = piece + 1 == count();
      const bool room = piece + 1 < places;
      result = AskToEmpty(piece, last ? kAwaitsAllVisits : room ? kAwaitsNoVisit : places - 1);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }
  CUresult AskToEmpty(size_t piece, uint64_t ahead) {
    const auto empty = [transfer = transfer_, piece](const GoOn& go_on) {
      transfer->Move(piece);
      // Whoever waits for the stream finds it back in the pool.
      if (piece + 1 == transfer->pieces.size()) transfer->shadow.reset();
      go_on();
    };
    return VisitStream(call_, stream_, empty, Range{transfer_->PlaceOf(piece), transfer_->pieces[piece].bytes}, ahead);
  }

  BasicCall& call_;
  const HandleId stream_;
  ShadowPool& pool_;
  std::shared_ptr<Transfer> transfer_;
  std::shared_ptr<HeldShadow> shadow_;
};

}  // namespace

uint64_t LargestPieceInOrder(Session& session, uint64_t bytes) {
  const uint64_t staged = PieceBytes(session.memory());
  const bool fine = session.mirrored() && VisitsWaiting() < kWaitingVisitsMax;
  return std::clamp(bytes / (fine ? kPiecesOverLink : kPiecesOfLargeCopy), staged, std::max(staged, kLargestPieceMax));
}

CUresult UploadInOrder(BasicCall& call, HandleId stream, std::vector<OrderedPiece> pieces) {
  return Enqueuing(call, stream, std::move(pieces)).Upload();
}

CUresult DownloadInOrder(BasicCall& call, HandleId stream, std::vector<OrderedPiece> pieces) {
  return Enqueuing(call, stream, std::move(pieces)).Download();
}

}  // namespace tessera
