#include "client-stub/copies/copy_box.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/graphs/graph_shadow.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/transfers/box_ends.h"
#include "client-stub/transfers/copy_in_order.h"
#include "client-stub/transfers/host_rows.h"
#include "client-stub/transfers/staged_transfer.h"
#include "client-stub/transfers/transfer_bytes.h"
#include "generated/messages/copy.h"
#include "protocol/memory/copy_route.h"

namespace tessera {
namespace {

// SetSource() and SetDestination() fill in an end that the worker reaches itself.
void SetSource(CUDA_MEMCPY3D* shape, const ResolvedEnd& end, const SubBox& sub) {
  shape->srcXInBytes = end.x + sub.x;
  shape->srcY = end.y + sub.y;
  shape->srcZ = end.z + sub.z;
  shape->srcDevice = end.base;
  shape->srcPitch = end.pitch;
  shape->srcHeight = end.rows;
}

void SetDestination(CUDA_MEMCPY3D* shape, const ResolvedEnd& end, const SubBox& sub) {
  shape->dstXInBytes = end.x + sub.x;
  shape->dstY = end.y + sub.y;
  shape->dstZ = end.z + sub.z;
  shape->dstDevice = end.base;
  shape->dstPitch = end.pitch;
  shape->dstHeight = end.rows;
}

struct Transfer {
  Call& call;
  HandleId stream;
  ResolvedEnd from;
  ResolvedEnd to;
  SubBox whole;
  bool async;
  void* from_context;
  void* to_context;

  cuMemcpy3DAsync_v2Request Request(const SubBox& sub, CopyRoute route) const {
    cuMemcpy3DAsync_v2Request request;
    request.shape.WidthInBytes = sub.width;
    request.shape.Height = sub.height;
    request.shape.Depth = sub.depth;
    SetSource(&request.shape, from, sub);
    SetDestination(&request.shape, to, sub);
    request.shape.reserved0 = from_context;
    request.shape.reserved1 = to_context;
    request.src_array = from.array;
    request.dst_array = to.array;
    request.route = static_cast<uint32_t>(route);
    request.stream = stream;
    return request;
  }
};

// Cuts the box into sub-boxes of at most `bytes_max` bytes: whole slices if they fit, else whole rows, else parts of rows.
// Calls `visit` for each until one fails.
template <typename Visit>
CUresult ForEachSubBox(const SubBox& whole, uint64_t bytes_max, Visit visit) {
  const uint64_t width = std::min(whole.width, bytes_max);
  const uint64_t height = width < whole.width ? 1 : std::min(whole.height, bytes_max / width);
  const uint64_t depth = height < whole.height ? 1 : std::min(whole.depth, std::max<uint64_t>(1, bytes_max / (width * height)));
  for (uint64_t z = 0; z < whole.depth; z += depth) {
    for (uint64_t y = 0; y < whole.height; y += height) {
      for (uint64_t x = 0; x < whole.width; x += width) {
        const SubBox sub{
            x, y, z, std::min(width, whole.width - x), std::min(height, whole.height - y), std::min(depth, whole.depth - z)};
        const bool last = z + depth >= whole.depth && y + height >= whole.height && x + width >= whole.width;
        if (const CUresult result = visit(sub, last); result != CUDA_SUCCESS) return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

// The end in staging or in a shadow: packed rows at `offset`.
ResolvedEnd Packed(uint64_t offset, const SubBox& sub) {
  ResolvedEnd end;
  end.base = offset;
  end.pitch = sub.width;
  end.rows = sub.height;
  return end;
}

CUresult Upload(const Transfer& transfer, WorkOnRanges& work) {
  if (transfer.whole.bytes() <= kInlineBytesMax) {
    std::vector<std::byte> packed(transfer.whole.bytes());
    RowsOf(transfer.from, transfer.whole).Pack(packed.data());
    auto request = transfer.Request(transfer.whole, CopyRoute::kInline);
    SetSource(&request.shape, Packed(0, transfer.whole), SubBox{});
    request.data = packed;
    return transfer.async ? work.Async(request) : work.SyncWork(request);
  }
  StagedUpload upload(transfer.call);
  const uint64_t piece_bytes = PieceBytes(transfer.call.session().memory());
  return ForEachSubBox(transfer.whole, piece_bytes, [&](const SubBox& sub, bool last) {
    return upload.Push(
        sub.bytes(), [&](std::span<std::byte> piece) { RowsOf(transfer.from, sub).Pack(piece.data()); },
        [&](uint64_t offset, uint64_t mark) {
          auto request = transfer.Request(sub, CopyRoute::kFromStaging);
          SetSource(&request.shape, Packed(offset, sub), SubBox{});
          request.mark = mark;
          return transfer.async || !last ? work.Async(request) : work.SyncWork(request);
        });
  });
}

CUresult Download(const Transfer& transfer, WorkOnRanges& work) {
  StagedDownload download(transfer.call);
  const uint64_t piece_bytes = PieceBytes(transfer.call.session().memory());
  const CUresult result = ForEachSubBox(transfer.whole, piece_bytes, [&](const SubBox& sub, bool) {
    return download.Push(
        sub.bytes(), [rows = RowsOf(transfer.to, sub)](std::span<const std::byte> piece) { rows.Unpack(piece.data()); },
        [&](uint64_t offset, uint64_t mark) {
          auto request = transfer.Request(sub, CopyRoute::kToStaging);
          SetDestination(&request.shape, Packed(offset, sub), SubBox{});
          request.mark = mark;
          return work.Async(request);
        });
  });
  return result != CUDA_SUCCESS ? result : download.Finish();
}

// Copies between memory that the server reaches and private memory, when the stream reaches the copy.
CUresult CopyInOrder(const Transfer& transfer, WorkOnRanges& work, bool to_host) {
  std::vector<OrderedPiece> pieces;
  const uint64_t piece_bytes = LargestPieceInOrder(transfer.call.session(), transfer.whole.bytes());
  ForEachSubBox(transfer.whole, piece_bytes, [&](const SubBox& sub, bool) {
    OrderedPiece piece;
    piece.bytes = sub.bytes();
    if (to_host) {
      piece.move = [rows = RowsOf(transfer.to, sub)](const std::byte* shadow) { rows.Unpack(shadow); };
    } else {
      piece.move = [rows = RowsOf(transfer.from, sub)](std::byte* shadow) { rows.Pack(shadow); };
    }
    piece.send = [&transfer, &work, sub, to_host](uint64_t shadow, uint64_t mark) {
      auto request = transfer.Request(sub, CopyRoute::kDirect);
      if (to_host) {
        SetDestination(&request.shape, Packed(shadow, sub), SubBox{});
      } else {
        SetSource(&request.shape, Packed(shadow, sub), SubBox{});
      }
      request.mark = mark;
      return work.Async(request);
    };
    pieces.push_back(std::move(piece));
    return CUDA_SUCCESS;
  });
  return to_host ? DownloadInOrder(transfer.call, transfer.stream, std::move(pieces))
                 : UploadInOrder(transfer.call, transfer.stream, std::move(pieces));
}

}  // namespace

CUresult CopyBox(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows, SourceRead read) {
  if (!call.ok()) return call.result();
  Transfer transfer{call, call.UseStream(stream), {}, {}, {}, async, box.reserved0, box.reserved1};
  bool capturing = false;
  if (call.ok()) {
    if (const CUresult legal = CheckStreamUse(call, stream, &capturing); legal != CUDA_SUCCESS) call.Fail(legal);
  }
  if (!call.ok() || box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0) return call.result();
  if (!ResolveEnds(call, box, check_rows, &transfer.from, &transfer.to)) return call.result();
  transfer.whole = SubBox{0, 0, 0, box.WidthInBytes, box.Height, box.Depth};
  const bool from_ordinary = transfer.from.ordinary();
  const bool to_ordinary = transfer.to.ordinary();
  if (capturing && (from_ordinary || to_ordinary)) {
    CUDA_MEMCPY3D node = box;
    if (!check_rows) node.srcHeight = node.dstHeight = 0;
    return CaptureHostCopy(call, transfer.stream, node);
  }
  const bool from_pinned = !transfer.from.is_array() && transfer.from.place == Place::kPinned;
  const auto server_reaches_host = [&](const ResolvedEnd& end) {
    return !end.is_array() && (end.place == Place::kPinned || call.session().memory().allocations().Contains(end.extent.base));
  };

  const auto on_device = [](const ResolvedEnd& end) {
    return !end.is_array() && end.place == Place::kDevice ? end.extent : Range{};
  };
  WorkOnRanges work(call, transfer.stream, on_device(transfer.to), on_device(transfer.from));
  if (work.result() != CUDA_SUCCESS) return work.result();
  const auto on_host = [](const ResolvedEnd& end) { return !end.is_array() && end.place != Place::kDevice; };
  if (on_host(transfer.from) && on_host(transfer.to) && !capturing) {  // for the reason given in CopyBytes()
    const CUresult result = WaitForStream(call, transfer.stream);
    if (result == CUDA_SUCCESS) RowsOf(transfer.from, transfer.whole).CopyTo(RowsOf(transfer.to, transfer.whole));
    return result;
  }
  const bool read_now = async && read == SourceRead::kInCall;
  if (!from_ordinary && !to_ordinary && !(read_now && from_pinned)) {
    const auto request = transfer.Request(transfer.whole, CopyRoute::kDirect);
    const bool returns = async ? !read_now : !server_reaches_host(transfer.from) && !server_reaches_host(transfer.to);
    return returns ? work.Async(request) : work.SyncWork(request);
  }
  if (to_ordinary) {
    const bool in_order = async && !read_now && transfer.to.place == Place::kPrivate;
    return in_order ? CopyInOrder(transfer, work, true) : Download(transfer, work);
  }
  if (async && !read_now && transfer.from.place == Place::kPrivate) return CopyInOrder(transfer, work, false);
  CUresult ready = CUDA_SUCCESS;
  if (!async) ready = WaitForHostWriters(call, transfer.stream);
  if (async && read == SourceRead::kInStreamOrder) ready = WaitForStream(call, transfer.stream);
  if (ready != CUDA_SUCCESS) return ready;
  return Upload(transfer, work);
}

}  // namespace tessera
