#include "client-stub/copies/copy_bytes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/graphs/graph_shadow.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/process/copier.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/transfers/copy_in_order.h"
#include "client-stub/transfers/staged_transfer.h"
#include "client-stub/transfers/transfer_bytes.h"
#include "generated/messages/copy.h"
#include "generated/messages/service.h"
#include "protocol/base/log.h"
#include "protocol/memory/copy_route.h"

namespace tessera {
namespace {

// The largest copies that are read when they are called although they could be read later. Reading more would make the caller
// wait. Several threads read the larger ones.
constexpr uint64_t kReadAtOnceBytesMax = uint64_t{1} << 20;
constexpr uint64_t kReadAtOnceOverLinkBytesMax = uint64_t{256} << 10;

bool IsOrdinary(Place place) { return place == Place::kPageable || place == Place::kPrivate; }

// Copies between memory that the server reaches and private memory, when the stream reaches the copy.
CUresult CopyInOrder(Call& call, WorkOnRanges& work, HandleId stream, uint64_t to, uint64_t from, uint64_t bytes, bool to_host) {
  std::vector<OrderedPiece> pieces;
  const auto reader = to_host ? Copier::Reader::kProgram : Copier::Reader::kDevice;
  const uint64_t largest = LargestPieceInOrder(call.session(), bytes);
  for (uint64_t done = 0, size = 0; done < bytes; done += size) {
    size = call.session().mirrored() ? std::min(largest, bytes - done) : NextPieceBytes(bytes, done, largest);
    OrderedPiece piece;
    piece.bytes = size;
    piece.move = [host = (to_host ? to : from) + done, size, bytes, to_host, reader](std::byte* shadow) {
      auto* const memory = reinterpret_cast<std::byte*>(host);
      Copier::Process().CopyBeside(to_host ? memory : shadow, to_host ? shadow : memory, size, bytes, reader);
    };
    piece.send = [&work, stream, to, from, done, size, to_host](uint64_t shadow, uint64_t mark) {
      auto request = CopyRequest(stream, to_host ? shadow : to + done, to_host ? from + done : shadow, size, CopyRoute::kDirect);
      request.mark = mark;
      return work.Async(request);
    };
    pieces.push_back(std::move(piece));
  }
  return to_host ? DownloadInOrder(call, stream, std::move(pieces)) : UploadInOrder(call, stream, std::move(pieces));
}

// A captured copy becomes a node of the graph. This is how driver 580 describes that node: the memory types are those of the call
// that was made, pitches and heights are 0.
CUDA_MEMCPY3D RowBetween(const CopyForm& form, uint64_t to, uint64_t from, uint64_t bytes) {
  const auto type = [](bool device, bool other_is_device) {
    return device ? CU_MEMORYTYPE_DEVICE : other_is_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  };
  CUDA_MEMCPY3D row{};
  row.srcMemoryType = type(form.device_from, form.device_to);
  row.dstMemoryType = type(form.device_to, form.device_from);
  row.srcDevice = row.srcMemoryType == CU_MEMORYTYPE_HOST ? 0 : from;
  row.srcHost = row.srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<const void*>(from) : nullptr;
  row.dstDevice = row.dstMemoryType == CU_MEMORYTYPE_HOST ? 0 : to;
  row.dstHost = row.dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<void*>(to) : nullptr;
  row.WidthInBytes = bytes;
  row.Height = row.Depth = 1;
  return row;
}

void MoveHere(std::byte* to, const std::byte* from, uint64_t bytes) {
  const bool apart = to + bytes <= from || from + bytes <= to;
  apart ? Copier::Process().Copy(to, from, bytes) : static_cast<void>(std::memmove(to, from, bytes));
}

// Makes the copy and reads its source now. That needs a stream that is idle until the last record is appended, and room. nullopt:
// the copy was not made, so the caller has to copy all of it behind the work that came between, even if some pieces were sent.
std::optional<CUresult> UploadWhileIdle(Call& call, WorkOnRanges& work, CUstream stream, uint64_t to, const std::byte* from,
                                        uint64_t bytes) {
  if (bytes > (call.session().mirrored() ? kReadAtOnceOverLinkBytesMax : kReadAtOnceBytesMax)) return std::nullopt;
  UsedStream used;
  if (call.Fail(FindStream(call, stream, &used)) != CUDA_SUCCESS) return call.result();
  const std::optional<SeenIdle> idle = KnownIdle(call, used);
  if (!idle) return std::nullopt;
  TakeBackStreamWork(call, used);
  const auto send = [&](const cuMemcpyAsyncRequest& request, bool) { return work.AsyncIf(*idle, request); };
  const CUresult result = UploadBytes(call, used.id, to, from, bytes, send, false);
  if (result != Session::kNotAppended) return result;
  NoteStreamWork(call, stream);
  return std::nullopt;
}

// How many of the bytes lie, at both ends, in the same mapping of host memory as the first byte (host_allocations.h). To the
// server's driver each mapping is separate memory. Natively one copy may reach over adjacent mappings, so here it may too.
uint64_t BytesOfOneMapping(ClientMemory& memory, uint64_t to, uint64_t from, uint64_t bytes) {
  for (const uint64_t address : {to, from}) {
    const Range mapping = memory.allocations().MappingAt(address);
    if (mapping.bytes != 0) bytes = std::min(bytes, mapping.end() - address);
  }
  return bytes;
}

CUresult CopyPieces(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form) {
  ClientMemory& memory = call.session().memory();
  // Checks every piece before the first one is copied: the call copies everything or nothing.
  for (uint64_t done = 0, size = 0; done < bytes; done += size) {
    size = BytesOfOneMapping(memory, to + done, from + done, bytes - done);
    if (CheckMemory(call, to + done, size) == Place::kInvalid || CheckMemory(call, from + done, size) == Place::kInvalid) {
      return call.Fail(CUDA_ERROR_INVALID_VALUE);
    }
  }
  CUresult result = CUDA_SUCCESS;
  for (uint64_t done = 0, size = 0; done < bytes && result == CUDA_SUCCESS; done += size) {
    size = BytesOfOneMapping(memory, to + done, from + done, bytes - done);
    result = CopyBytes(call, to + done, from + done, size, stream, form);
  }
  return result;
}

}  // namespace

CUresult CopyBytes(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form) {
  if (!call.ok()) return call.result();
  const HandleId id = call.UseStream(stream);
  bool capturing = false;
  if (call.ok()) {
    if (const CUresult legal = CheckStreamUse(call, stream, &capturing); legal != CUDA_SUCCESS) call.Fail(legal);
  }
  if (!call.ok() || bytes == 0) return call.result();
  if (to == 0 || from == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);

  ClientMemory& memory = call.session().memory();
  to = memory.Translate(to);
  from = memory.Translate(from);
  if (BytesOfOneMapping(memory, to, from, bytes) != bytes) return CopyPieces(call, to, from, bytes, stream, form);
  const Place to_place = CheckMemory(call, to, bytes);
  const Place from_place = CheckMemory(call, from, bytes);
  // Memory that is mapped for the program alone is ordinary memory, but all forms accept it (measured: driver 580).
  const auto to_mapping = to_place == Place::kPageable ? memory.allocations().ProgramAccess(to) : std::nullopt;
  const auto from_mapping = from_place == Place::kPageable ? memory.allocations().ProgramAccess(from) : std::nullopt;
  if (to_place == Place::kInvalid || from_place == Place::kInvalid ||
      (form.device_to && to_place == Place::kPageable && !to_mapping) ||
      (form.device_from && from_place == Place::kPageable && !from_mapping)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // The program may not write there. Natively it ends with a signal.
  if (to_mapping && *to_mapping != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  // Pinned memory is accepted as device memory, but host memory of a pool is not (measured: driver 580).
  if ((form.device_to && memory.pools().Contains(to)) || (form.device_from && memory.pools().Contains(from))) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const bool to_ordinary = IsOrdinary(to_place);
  const bool from_ordinary = IsOrdinary(from_place);
  if (capturing && (to_ordinary || from_ordinary)) {
    return CaptureHostCopy(call, id, RowBetween(form, to, from, bytes));
  }

  const auto on_device = [&](Place place, uint64_t address) { return Range{address, place == Place::kDevice ? bytes : 0}; };
  WorkOnRanges work(call, id, on_device(to_place, to), on_device(from_place, from));
  if (work.result() != CUDA_SUCCESS) return work.result();
  auto* const host_to = reinterpret_cast<std::byte*>(to);
  const auto* const host_from = reinterpret_cast<const std::byte*>(from);
  if (to_place != Place::kDevice && from_place != Place::kDevice && !capturing) {
    // Asynchronous forms, too, return when the copy is done (CUDA Driver API, "API synchronization behavior"; measured: driver
    // 580). So it is made here: the server's driver would block the server's executor meanwhile.
    const CUresult result = WaitForStream(call, id);
    if (result == CUDA_SUCCESS) MoveHere(host_to, host_from, bytes);
    return result;
  }
  const bool read_now = form.async && form.read == SourceRead::kInCall;
  if (!to_ordinary && !from_ordinary && !(read_now && from_place == Place::kPinned)) {
    const auto request = CopyRequest(id, to, from, bytes, CopyRoute::kDirect);
    const bool stays_on_device = to_place == Place::kDevice && from_place == Place::kDevice &&
                                 !memory.allocations().Contains(to) && !memory.allocations().Contains(from);
    return (form.async && !read_now) || (!form.async && stays_on_device) ? work.Async(request) : work.SyncWork(request);
  }
  if (to_ordinary) {
    const bool in_order = form.async && !read_now && to_place == Place::kPrivate;
    if (in_order) {
      UsedStream used;
      if (call.Fail(FindStream(call, stream, &used)) != CUDA_SUCCESS) return call.result();
      const auto deliver = [&work](const tesseraDeliverRequest& request) { return work.AsyncAs(request); };
      if (const auto done = memory.deliveries().Copy(call, used, Range{to, bytes}, from, deliver)) return *done;
      return CopyInOrder(call, work, id, to, from, bytes, true);
    }
    return DownloadBytes(call, id, host_to, from, bytes,
                         [&](const cuMemcpyAsyncRequest& request, bool) { return work.Async(request); });
  }
  if (form.async && !read_now && from_place == Place::kPrivate) {
    const auto done = UploadWhileIdle(call, work, stream, to, host_from, bytes);
    return done ? *done : CopyInOrder(call, work, id, to, from, bytes, false);
  }
  // Asynchronous copies of ordinary memory read it before they return, and do not wait for work that may write it.
  CUresult ready = CUDA_SUCCESS;
  if (!form.async) ready = WaitForHostWriters(call, id);
  if (form.async && form.read == SourceRead::kInStreamOrder) ready = WaitForStream(call, id);
  if (ready != CUDA_SUCCESS) return ready;
  return UploadBytes(call, id, to, host_from, bytes, [&](const cuMemcpyAsyncRequest& request, bool last) {
    // The answer to the last piece of a synchronous copy is the answer for all pieces.
    return form.async || !last ? work.Async(request) : work.SyncWork(request);
  });
}

}  // namespace tessera
