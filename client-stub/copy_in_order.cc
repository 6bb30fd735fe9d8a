#include "client-stub/copy_in_order.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "client-stub/client_memory.h"
#include "client-stub/session.h"
#include "client-stub/stream_visit.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

// Of a copy: what one piece's DMA and the filling or emptying of another need. To a server on another host pieces are on their way
// for longer than either takes.
constexpr size_t kShadows = 2;
constexpr size_t kUploadShadowsOverLink = 4;
// At one visit, so that the next one does not wait for all that there is room for.
constexpr size_t kFilledAtOnce = 2;

// One copy on its way. Piece k uses shadow k % their number. Visits come one after the other on one thread, so nothing here is locked.
struct Transfer {
  Session& session;
  ShadowPool& pool;
  std::vector<OrderedPiece> pieces;
  std::vector<Shadow> shadows;
  size_t filled = 0;

  const Shadow& ShadowOf(size_t piece) const { return shadows[piece % shadows.size()]; }
  void Fill(size_t piece) {
    const Shadow& shadow = ShadowOf(piece);
    pieces[piece].move(shadow.data());
    PublishFromVisit(session, shadow.address, pieces[piece].bytes);
    filled = piece + 1;
  }
};

CUresult Begin(Call& call, std::vector<OrderedPiece> pieces, size_t shadows_max, std::shared_ptr<Transfer>* out) {
  ShadowPool& pool = ClientMemory::Of(call.session()).shadows();
  auto transfer = std::make_shared<Transfer>(Transfer{call.session(), pool, std::move(pieces), {}, 0});
  uint64_t bytes = 0;
  for (const OrderedPiece& piece : transfer->pieces) bytes = std::max(bytes, piece.bytes);
  const size_t count = std::min(transfer->pieces.size(), shadows_max);
  while (transfer->shadows.size() < count) {
    Shadow shadow;
    if (const CUresult result = pool.Take(call, bytes, &shadow); result != CUDA_SUCCESS) {
      for (const Shadow& one : transfer->shadows) pool.Return(one);
      return result;
    }
    transfer->shadows.push_back(shadow);
  }
  *out = std::move(transfer);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult UploadInOrder(Call& call, HandleId stream, std::vector<OrderedPiece> pieces) {
  std::shared_ptr<Transfer> transfer;
  const size_t shadows = call.session().mirrored() ? kUploadShadowsOverLink : kShadows;
  if (const CUresult result = Begin(call, std::move(pieces), shadows, &transfer); result != CUDA_SUCCESS) return result;
  const size_t count = transfer->pieces.size();
  for (size_t piece = 0; piece < count; ++piece) {
    // When the stream is here the DMA of the piece before is done, and with it that one's shadow is free: the next pieces are
    // filled in while this one's DMA runs.
    CUresult result = VisitStream(call, stream, [transfer, piece, count](const GoOn& go_on) {
      if (transfer->filled <= piece) transfer->Fill(piece);
      go_on();
      const size_t end = std::min({count, piece + transfer->shadows.size(), transfer->filled + kFilledAtOnce});
      while (transfer->filled < end) {
        transfer->Fill(transfer->filled);
        transfer->session.channel().SendPublished();  // its own visit's answer comes later
      }
    });
    if (result != CUDA_SUCCESS) return result;
    const bool last = piece + 1 == count;
    const uint64_t mark = last ? call.session().marks().Open() : 0;
    const Shadow shadow = transfer->ShadowOf(piece);
    result = transfer->pieces[piece].send(shadow.address, mark);
    if (last) {
      // The last DMA is the last user of both shadows. A mark of a copy that could not be sent is never passed.
      transfer->pool.ReturnAfter(transfer->shadows, mark);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult DownloadInOrder(Call& call, HandleId stream, std::vector<OrderedPiece> pieces) {
  std::shared_ptr<Transfer> transfer;
  if (const CUresult result = Begin(call, std::move(pieces), kShadows, &transfer); result != CUDA_SUCCESS) return result;
  const size_t count = transfer->pieces.size();
  for (size_t piece = 0; piece < count; ++piece) {
    const Shadow shadow = transfer->ShadowOf(piece);
    const uint64_t bytes = transfer->pieces[piece].bytes;
    CUresult result = transfer->pieces[piece].send(shadow.address, 0);
    if (result != CUDA_SUCCESS) return result;
    // The next DMA goes to the other shadow, which the visit before this one has emptied: it may run meanwhile. What comes
    // after the copy may not.
    result = VisitStream(
        call, stream,
        [transfer, piece, count](const GoOn& go_on) {
          const bool last = piece + 1 == count;
          if (!last) go_on();
          transfer->pieces[piece].move(transfer->ShadowOf(piece).data());
          if (!last) return;
          for (const Shadow& one : transfer->shadows) transfer->pool.Return(one);
          go_on();
        },
        Range{shadow.address, bytes});
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera
