#include "client-stub/servers/copy_across.h"

#include <algorithm>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_box.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/copier.h"
#include "client-stub/servers/server_work.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/streams/stream_visit.h"
#include "client-stub/transfers/publish.h"
#include "client-stub/transfers/staged_transfer.h"
#include "generated/client/context.h"
#include "generated/client/host_memory.h"
#include "generated/messages/copy.h"
#include "protocol/memory/copy_route.h"

namespace tessera {
namespace {

// The owner of the device memory at one end of a copy. No session means host memory, which every session can have.
struct Owner {
  Session* session = nullptr;
  const Context* context = nullptr;

  bool elsewhere(const Call& call) const { return session != nullptr && session != &const_cast<Call&>(call).session(); }
};

Owner OwnerOfDeviceMemory(uint64_t address) {
  const AddressOwner owner = OwnerOf(address);
  return owner.host ? Owner{} : Owner{owner.session, owner.context};
}

Owner OwnerOfEnd(CUmemorytype type, CUdeviceptr device, CUarray array) {
  if (type == CU_MEMORYTYPE_HOST) return {};
  if (type != CU_MEMORYTYPE_ARRAY) return OwnerOfDeviceMemory(device);
  const HandleId id(reinterpret_cast<uint64_t>(array));
  Session* session = Client::Get().SessionOf(id);
  if (session == nullptr || !session->handles().IsLive(id, HandleKind::kArray)) return {};
  return {session, session->contexts().AnyActive(-1)};
}

// The checks that all these copies share: the stream is valid, and no capture is concerned. False: the call failed.
bool Begin(Call& call, CUstream stream, const Owner& to, const Owner& from, UsedStream* used) {
  if (!UseStreamInfo(call, stream, used)) return false;
  if (call.Fail(Captures().CheckUncapturable(used->ref)) != CUDA_SUCCESS) return false;
  call.ActIn(used->info.context);
  for (const Owner& owner : {to, from}) {
    if (owner.elsewhere(call) && owner.context == nullptr) return call.Fail(CUDA_ERROR_INVALID_CONTEXT) == CUDA_SUCCESS;
  }
  return true;
}

// Comes before a synchronous copy: unfinished work of the contexts concerned may still write its source, or use its destination.
CUresult Settle(Call& call, const Owner& to, const Owner& from) {
  const Context* own = call.current_context();
  for (const Context* context : {own, to.context, from.context}) {
    if (context == nullptr || (context != own && context->session == &call.session())) continue;
    const ContextScope scope(*context);
    if (const CUresult result = Enter_cuCtxSynchronize(false); result != CUDA_SUCCESS) return call.FailElsewhere(result);
  }
  return CUDA_SUCCESS;
}

// Comes after each copy: a synchronous one waits here.
CUresult Finish(Call& call, HandleId stream, bool async, CUresult result) {
  if (result != CUDA_SUCCESS) return call.FailElsewhere(result);
  if (async) return result;
  result = WaitForStream(call, stream);
  return result == CUDA_SUCCESS ? call.FinishWork() : call.Fail(result);
}

// One side of a copy between two servers: a call, its stream, and the pinned memory through which the bytes go.
struct Side {
  Call& call;
  HandleId stream;
  std::shared_ptr<HeldShadow> shadow{};
};

CUresult Dma(WorkOnRanges& work, HandleId stream, uint64_t to, uint64_t from, uint64_t bytes, uint64_t mark) {
  cuMemcpyAsyncRequest request;
  request.dst = to;
  request.src = from;
  request.bytes = bytes;
  request.route = static_cast<uint32_t>(CopyRoute::kDirect);
  request.mark = mark;
  request.stream = stream;
  return work.AsyncAs(request);
}

// Enqueues the copy in both streams. Whatever comes later in the destination's stream runs after the copy.
CUresult Transfer(Side& source, uint64_t from, Side& destination, uint64_t to, uint64_t bytes) {
  ClientMemory& source_memory = source.call.session().memory();
  ClientMemory& destination_memory = destination.call.session().memory();
  WorkOnRanges reads(source.call, source.stream, Range{}, Range{from, bytes});
  if (reads.result() != CUDA_SUCCESS) return reads.result();
  WorkOnRanges writes(destination.call, destination.stream, Range{to, bytes}, Range{});
  if (writes.result() != CUDA_SUCCESS) return writes.result();
  const uint64_t piece_bytes = std::min({PieceBytes(source_memory), PieceBytes(destination_memory), bytes});
  CUresult result = source_memory.shadows().Take(source.call, piece_bytes, &source.shadow);
  if (result == CUDA_SUCCESS) result = destination_memory.shadows().Take(destination.call, piece_bytes, &destination.shadow);
  if (result != CUDA_SUCCESS) return result;
  for (uint64_t done = 0; done < bytes && result == CUDA_SUCCESS; done += piece_bytes) {
    const uint64_t size = std::min(piece_bytes, bytes - done);
    const bool last = done + size == bytes;
    // Neither stream goes on before both are here. So each shadow is free again when its stream gets to the next piece.
    result = Dma(reads, source.stream, source.shadow->address(), from + done, size, 0);
    if (result == CUDA_SUCCESS) {
      const auto move = [&session = destination.call.session(), here = source.shadow, there = destination.shadow, size] {
        Copier::Process().Copy(there->data(), here->data(), size);
        PublishFromVisit(session, there->address(), size);
      };
      result = MeetStreams(source.call, source.stream, destination.call, destination.stream, move,
                           Range{source.shadow->address(), size});
    }
    if (result != CUDA_SUCCESS) break;
    const uint64_t mark = last ? destination.call.session().marks().Open() : 0;
    result = Dma(writes, destination.stream, to + done, destination.shadow->address(), size, mark);
    if (last) destination_memory.shadows().HoldUntil(mark, destination.shadow);
  }
  if (result != CUDA_SUCCESS) {
    source.shadow->Lose();
    destination.shadow->Lose();
  }
  return result;
}

// Copies from one server to another, in the order of `stream`. That stream may belong to either of them or to a third.
CUresult CopyBetween(Call& call, HandleId stream, uint64_t to, const Owner& to_owner, uint64_t from, const Owner& from_owner,
                     uint64_t bytes) {
  Side home{call, stream};
  if (!to_owner.elsewhere(call)) {
    ServerWork work(*from_owner.context);
    if (work.result() != CUDA_SUCCESS) return work.result();
    Side source{work.call(), work.stream()};
    const CUresult result = MeetStreams(call, stream, source.call, source.stream);
    return result == CUDA_SUCCESS ? Transfer(source, from, home, to, bytes) : result;
  }
  ServerWork work(*to_owner.context);
  if (work.result() != CUDA_SUCCESS) return work.result();
  Side destination{work.call(), work.stream()};
  CUresult result = CUDA_SUCCESS;
  if (!from_owner.elsewhere(call)) {
    result = Transfer(home, from, destination, to, bytes);
  } else {
    ServerWork other(*from_owner.context);
    if (other.result() != CUDA_SUCCESS) return other.result();
    Side source{other.call(), other.stream()};
    result = MeetStreams(call, stream, source.call, source.stream);
    if (result == CUDA_SUCCESS) result = Transfer(source, from, destination, to, bytes);
  }
  return result == CUDA_SUCCESS ? MeetStreams(destination.call, destination.stream, call, stream) : result;
}

bool IsAllDevice(const Owner& owner, uint64_t address, uint64_t bytes) {
  return owner.session->memory().Classify(address, bytes) == Place::kDevice;
}

// Replaces one end of a box by packed rows in pinned memory.
void UsePacked(CUDA_MEMCPY3D* box, bool source, void* memory) {
  const size_t pitch = box->WidthInBytes;
  const size_t rows = box->Height;
  if (source) {
    box->srcXInBytes = box->srcY = box->srcZ = 0;
    box->srcMemoryType = CU_MEMORYTYPE_HOST;
    box->srcHost = memory;
    box->srcPitch = pitch;
    box->srcHeight = rows;
  } else {
    box->dstXInBytes = box->dstY = box->dstZ = 0;
    box->dstMemoryType = CU_MEMORYTYPE_HOST;
    box->dstHost = memory;
    box->dstPitch = pitch;
    box->dstHeight = rows;
  }
}

// Copies by way of pinned memory that belongs to the source's session. Waits for the end.
CUresult CopyBoxBetween(Call& call, HandleId stream, const CUDA_MEMCPY3D& box, const Context& from, const Context& to,
                        bool check_rows) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(box.WidthInBytes, box.Height, &bytes) || __builtin_mul_overflow(bytes, box.Depth, &bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const ContextScope scope(from);
  void* packed = nullptr;
  if (const CUresult result = Enter_cuMemHostAlloc(false, &packed, bytes, CU_MEMHOSTALLOC_PORTABLE); result != CUDA_SUCCESS) {
    return result;
  }
  const auto step = [&](const Context& context, bool packed_source) {
    return DoElsewhere(call, stream, context, [&](ServerWork& work) {
      CUDA_MEMCPY3D half = box;
      work.call().ActAs(cuMemcpy3DAsync_v2Request::kId);
      UsePacked(&half, packed_source, packed);
      return CopyBox(work.call(), half, work.object(), true, check_rows);
    });
  };
  CUresult result = step(from, false);
  if (result == CUDA_SUCCESS) result = step(to, true);
  if (result == CUDA_SUCCESS) result = WaitForStream(call, stream);
  const CUresult freed = Enter_cuMemFreeHost(false, packed);
  return result == CUDA_SUCCESS ? freed : result;
}

}  // namespace

std::optional<CUresult> CopyAcross(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream,
                                   const CopyForm& form) {
  if (!call.ok()) return std::nullopt;
  call.RouteToHandle(stream);
  const Owner to_owner = OwnerOfDeviceMemory(to);
  const Owner from_owner = OwnerOfDeviceMemory(from);
  if (!call.ok() || (!to_owner.elsewhere(call) && !from_owner.elsewhere(call))) return std::nullopt;
  UsedStream used;
  if (!Begin(call, stream, to_owner, from_owner, &used) || bytes == 0) return call.result();
  if ((to_owner.session != nullptr && !IsAllDevice(to_owner, to, bytes)) ||
      (from_owner.session != nullptr && !IsAllDevice(from_owner, from, bytes))) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (!form.async) {
    if (const CUresult settled = Settle(call, to_owner, from_owner); settled != CUDA_SUCCESS) return settled;
  }
  const bool between = to_owner.session != nullptr && from_owner.session != nullptr && to_owner.session != from_owner.session;
  CUresult result = CUDA_SUCCESS;
  if (between) {
    result = CopyBetween(call, used.id, to, to_owner, from, from_owner, bytes);
  } else {
    // The other server copies by itself. It also checks what may be ordinary memory.
    const Context& context = to_owner.session != nullptr ? *to_owner.context : *from_owner.context;
    CopyForm there = form;
    there.async = true;
    result = DoElsewhere(call, used.id, context,
                         [&](ServerWork& work) { return CopyBytes(work.call(), to, from, bytes, work.object(), there); });
  }
  return Finish(call, used.id, form.async, result);
}

std::optional<CUresult> CopyBoxAcross(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                                      SourceRead read) {
  if (!call.ok()) return std::nullopt;
  call.RouteToHandle(stream);
  const Owner to_owner = OwnerOfEnd(box.dstMemoryType, box.dstDevice, box.dstArray);
  const Owner from_owner = OwnerOfEnd(box.srcMemoryType, box.srcDevice, box.srcArray);
  if (!call.ok() || (!to_owner.elsewhere(call) && !from_owner.elsewhere(call))) return std::nullopt;
  UsedStream used;
  if (!Begin(call, stream, to_owner, from_owner, &used)) return call.result();
  if (box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0) return CUDA_SUCCESS;
  if (!async) {
    if (const CUresult settled = Settle(call, to_owner, from_owner); settled != CUDA_SUCCESS) return settled;
  }
  const bool between = to_owner.session != nullptr && from_owner.session != nullptr && to_owner.session != from_owner.session;
  CUresult result = CUDA_SUCCESS;
  if (between) {
    const auto context_of = [&](const Owner& owner) { return owner.elsewhere(call) ? owner.context : call.current_context(); };
    result = CopyBoxBetween(call, used.id, box, *context_of(from_owner), *context_of(to_owner), check_rows);
  } else {
    const Context& context = to_owner.session != nullptr ? *to_owner.context : *from_owner.context;
    result = DoElsewhere(call, used.id, context, [&](ServerWork& work) {
      work.call().ActAs(cuMemcpy3DAsync_v2Request::kId);
      return CopyBox(work.call(), box, work.object(), true, check_rows, read);
    });
  }
  return Finish(call, used.id, async, result);
}

CUresult CopyBytesAnywhere(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form) {
  if (SeveralServers()) [[unlikely]] {
    if (const auto done = CopyAcross(call, to, from, bytes, stream, form)) return *done;
  }
  return CopyBytes(call, to, from, bytes, stream, form);
}

CUresult CopyBoxAnywhere(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows, SourceRead read) {
  if (SeveralServers()) [[unlikely]] {
    if (const auto done = CopyBoxAcross(call, box, stream, async, check_rows, read)) return *done;
  }
  return CopyBox(call, box, stream, async, check_rows, read);
}

}  // namespace tessera
