#include "client-stub/transfers/transfer_bytes.h"

#include <span>

#include "client-stub/memory/client_memory.h"
#include "client-stub/process/copier.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/transfers/staged_transfer.h"

namespace tessera {

cuMemcpyAsyncRequest CopyRequest(HandleId stream, uint64_t to, uint64_t from, uint64_t bytes, CopyRoute route) {
  cuMemcpyAsyncRequest request;
  request.dst = to;
  request.src = from;
  request.bytes = bytes;
  request.route = static_cast<uint32_t>(route);
  request.stream = stream;
  return request;
}

CUresult UploadBytes(BasicCall& call, HandleId stream, uint64_t to, const std::byte* from, uint64_t bytes, const SendPiece& send,
                     bool waits) {
  if (bytes <= kInlineBytesMax) {
    auto request = CopyRequest(stream, to, 0, bytes, CopyRoute::kInline);
    request.data = std::span(from, bytes);
    return send(request, true);
  }
  StagedUpload upload(call, waits);
  for (uint64_t done = 0, size = 0; done < bytes; done += size) {
    size = NextPieceBytes(call.session(), bytes, done);
    const CUresult result = upload.Push(
        size,
        [&](std::span<std::byte> piece) {
          Copier::Process().CopyPiece(piece.data(), from + done, size, bytes, Copier::Reader::kDevice);
        },
        [&](uint64_t offset, uint64_t mark) {
          auto request = CopyRequest(stream, to + done, offset, size, CopyRoute::kFromStaging);
          request.mark = mark;
          return send(request, done + size == bytes);
        });
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult DownloadBytes(BasicCall& call, HandleId stream, std::byte* to, uint64_t from, uint64_t bytes, const SendPiece& send) {
  StagedDownload download(call);
  for (uint64_t done = 0, size = 0; done < bytes; done += size) {
    size = NextPieceBytes(call.session(), bytes, done);
    const CUresult result = download.Push(
        size,
        [=](std::span<const std::byte> piece) {
          Copier::Process().CopyPiece(to + done, piece.data(), size, bytes, Copier::Reader::kProgram);
        },
        [&](uint64_t offset, uint64_t mark) {
          auto request = CopyRequest(stream, offset, from + done, size, CopyRoute::kToStaging);
          request.mark = mark;
          return send(request, done + size == bytes);
        });
    if (result != CUDA_SUCCESS) return result;
  }
  return download.Finish();
}

CUresult WaitForHostWriters(BasicCall& call, HandleId stream) {
  // A kernel that uses a mirror is one too: what it wrote comes when it is done. So do deliveries.
  ClientMemory& memory = call.session().memory();
  const bool any = HostFunctionsOfProcess().used() || memory.mirrors().any() || memory.deliveries().used();
  return any ? WaitForStream(call, stream) : CUDA_SUCCESS;
}

}  // namespace tessera
