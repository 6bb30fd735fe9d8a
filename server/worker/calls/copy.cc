// Copies. The client has classified both ends and reduced every form to two records: bytes in a row, and boxes. Nothing
// here waits: DMA is enqueued in the call's stream (the NULL stream for synchronous forms), replies follow its completion.

#include <cuda.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "generated/driver_table.h"
#include "generated/server/copy.h"
#include "protocol/channel/channel.h"
#include "protocol/memory/copy_route.h"
#include "server/driver/missing_entry.h"
#include "server/worker/await_turn.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// A copy between two memories of devices is the GPU's own work, as a kernel is. What goes to the host or comes from it overlaps
// the kernels of others. An array has no range.
void AwaitCopy(CallContext& call, CUstream stream, const Range& to, const Range& from, uint64_t bytes) {
  if (!call.worker().gate().closed()) return;  // the rest would take locks
  SessionMemory& memory = call.worker().parts().memory();
  const auto on_host = [&](const Range& end) { return end.bytes != 0 && memory.IsHost(end.base, end.bytes); };
  if (!on_host(to) && !on_host(from)) AwaitTurn(call, stream, {call.header().call, bytes});
}

// Which way a copy of this many bytes goes, for who counts it.
void CountCopy(CallContext& call, bool from_host, bool to_host, uint64_t bytes) {
  if (from_host && !to_host) call.worker().gate().CountBytesTo(bytes);
  if (to_host && !from_host) call.worker().gate().CountBytesFrom(bytes);
}

template <typename Request>
void CopyBytes(CallContext& call, const Request& request) {
  SessionMemory& memory = call.worker().parts().memory();
  const DriverTable& driver = call.driver();
  const auto route = static_cast<CopyRoute>(request.route);
  const uint64_t context = call.holder().value();
  const bool reports = route == CopyRoute::kToStaging;
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return FinishAfter(call, stream, call.error(), request.mark, {}, reports);
  // Nothing to copy: the client wants to know when the stream's work is done.
  if (request.bytes == 0) return FinishAfter(call, stream, CUDA_SUCCESS, request.mark, {}, reports);
  if (route == CopyRoute::kInline && request.data.size() != request.bytes) return call.Malformed();

  const bool from_device = route == CopyRoute::kDirect || route == CopyRoute::kToStaging;
  const bool to_device = route != CopyRoute::kToStaging;
  if ((from_device && !memory.MayCopy(request.src, request.bytes)) ||
      (to_device && !memory.MayCopy(request.dst, request.bytes))) {
    return FinishAfter(call, stream, CUDA_ERROR_INVALID_VALUE, request.mark, {}, reports);
  }
  WrittenRange written;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (route) {
    case CopyRoute::kDirect: {
      const bool from_host = memory.IsHost(request.src, request.bytes);
      const bool to_host = memory.IsHost(request.dst, request.bytes);
      AwaitCopy(call, stream, {request.dst, request.bytes}, {request.src, request.bytes}, request.bytes);
      CountCopy(call, from_host, to_host, request.bytes);
      if (from_host && !to_host) {
        if (result = call.worker().implicit_order().Keep(stream, request.bytes); result != CUDA_SUCCESS) break;
      }
      // Pinned memory that is written here without shared pages is the client library's own: its visit has it published.
      result = driver.cuMemcpyAsync(request.dst, request.src, request.bytes, stream);
      break;
    }
    case CopyRoute::kInline:
      CountCopy(call, true, false, request.bytes);
      // Ordinary memory is read before the driver returns (CUDA Driver API, "API synchronization behavior").
      result = driver.cuMemcpyHtoDAsync_v2(request.dst, request.data.data(), request.bytes, stream);
      break;
    case CopyRoute::kFromStaging: {
      const auto staging = memory.host().Staging(context, request.src, request.bytes);
      if (staging.data() == nullptr) return call.Malformed();
      CountCopy(call, true, false, request.bytes);
      result = driver.cuMemcpyHtoDAsync_v2(request.dst, staging.data(), request.bytes, stream);
      break;
    }
    case CopyRoute::kToStaging: {
      const auto staging = memory.host().Staging(context, request.dst, request.bytes);
      if (staging.data() == nullptr) return call.Malformed();
      if (call.worker().channel().mirrored()) written = WrittenRange{kStagingSegment, request.dst, request.bytes};
      CountCopy(call, false, true, request.bytes);
      result = driver.cuMemcpyDtoHAsync_v2(staging.data(), request.src, request.bytes, stream);
      break;
    }
    default: return call.Malformed();
  }
  FinishAfter(call, stream, result, request.mark, written, reports);
}

template <typename Request>
void CopyPeer(CallContext& call, const Request& request) {
  SessionMemory& memory = call.worker().parts().memory();
  CUcontext to = call.Use<CUcontext>(request.dst_context);
  CUcontext from = call.Use<CUcontext>(request.src_context);
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  if (!memory.MayCopy(request.src, request.bytes) || !memory.MayCopy(request.dst, request.bytes)) {
    return call.Finish(CUDA_ERROR_INVALID_VALUE);
  }
  AwaitCopy(call, stream, {request.dst, request.bytes}, {request.src, request.bytes}, request.bytes);
  FinishAfter(call, stream, call.driver().cuMemcpyPeerAsync(request.dst, to, request.src, from, request.bytes, stream), 0);
}

// One end of a box that is not an array: the client has put its address (staging: its offset) into `address`.
struct BoxEnd {
  uint64_t address = 0;
  uint64_t pitch = 0;
  uint64_t rows = 0;
  uint64_t x = 0, y = 0, z = 0;
};

// Turns what the client sent into what the driver may use, and says which memory it is: `extent`, an offset in staging. False:
// the client may not reach it.
bool ResolveEnd(CallContext& call, const BoxEnd& end, const CUDA_MEMCPY3D& box, bool staging, CUmemorytype* type,
                uint64_t* address, Range* extent, WrittenRange* written) {
  SessionMemory& memory = call.worker().parts().memory();
  uint64_t skipped_rows = 0;
  uint64_t first = 0;
  if (__builtin_mul_overflow(end.z, end.rows, &skipped_rows) || __builtin_add_overflow(skipped_rows, end.y, &skipped_rows) ||
      __builtin_mul_overflow(skipped_rows, end.pitch, &first) || __builtin_add_overflow(first, end.x, &first) ||
      __builtin_add_overflow(first, end.address, &first)) {
    return false;
  }
  if (!ExtentOf(first, end.pitch, end.rows, box.WidthInBytes, box.Height, box.Depth, extent)) return false;
  if (staging) {
    const auto bytes = memory.host().Staging(call.holder().value(), extent->base, extent->bytes);
    if (bytes.data() == nullptr) return false;
    *type = CU_MEMORYTYPE_HOST;
    *address = reinterpret_cast<uint64_t>(bytes.data()) - (first - end.address);
    if (call.worker().channel().mirrored()) *written = WrittenRange{kStagingSegment, extent->base, extent->bytes};
    return true;
  }
  if (!memory.MayCopy(extent->base, extent->bytes)) return false;
  *type = memory.host().Contains(extent->base, extent->bytes) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  *address = end.address;
  return true;
}

// Enqueues a box between memories of which the client has said that arrays are of other contexts than the current one: it has put
// their ids where CUDA_MEMCPY3D_PEER has the contexts.
CUresult CopyBetweenContexts(CallContext& call, const CUDA_MEMCPY3D& box, HandleId from, HandleId to, CUstream stream) {
  const DriverTable& driver = call.driver();
  if (driver.cuMemcpy3DPeerAsync == nullptr) return MissingEntry("cuMemcpy3DPeerAsync");
  CUDA_MEMCPY3D_PEER peer;
  static_assert(sizeof(peer) == sizeof(box) && offsetof(CUDA_MEMCPY3D_PEER, srcContext) == offsetof(CUDA_MEMCPY3D, reserved0) &&
                offsetof(CUDA_MEMCPY3D_PEER, dstContext) == offsetof(CUDA_MEMCPY3D, reserved1));
  std::memcpy(static_cast<void*>(&peer), &box, sizeof(peer));
  CUcontext current = nullptr;
  if (const CUresult result = driver.cuCtxGetCurrent(&current); result != CUDA_SUCCESS) return result;
  peer.srcContext = from.is_null() ? current : call.Use<CUcontext>(from);
  peer.dstContext = to.is_null() ? current : call.Use<CUcontext>(to);
  return call.ok() ? driver.cuMemcpy3DPeerAsync(&peer, stream) : call.error();
}

template <typename Request>
void CopyBox(CallContext& call, const Request& request) {
  const auto route = static_cast<CopyRoute>(request.route);
  const bool reports = route == CopyRoute::kToStaging;
  CUstream stream = call.UseStream(request.stream);
  CUarray from_array = call.Use<CUarray>(request.src_array);
  CUarray to_array = call.Use<CUarray>(request.dst_array);
  if (!call.ok()) return FinishAfter(call, stream, call.error(), request.mark, {}, reports);

  CUDA_MEMCPY3D box = request.shape;
  if (box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0) {
    return FinishAfter(call, stream, CUDA_SUCCESS, request.mark, {}, reports);
  }
  constexpr bool kPeer = std::is_same_v<Request, cuMemcpy3DPeerRequest> || std::is_same_v<Request, cuMemcpy3DPeerAsyncRequest>;
  const HandleId from_context(kPeer ? reinterpret_cast<uint64_t>(box.reserved0) : 0);
  const HandleId to_context(kPeer ? reinterpret_cast<uint64_t>(box.reserved1) : 0);
  box.reserved0 = nullptr;
  box.reserved1 = nullptr;
  WrittenRange ignored;
  WrittenRange written;
  Range from;  // none: an array
  Range to;
  box.srcArray = from_array;
  if (from_array != nullptr) {
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  } else if (route == CopyRoute::kInline) {
    Range extent;
    if (!ExtentOf(0, box.srcPitch, box.srcHeight, box.WidthInBytes, box.Height, box.Depth, &extent) ||
        extent.bytes != request.data.size() || box.srcXInBytes != 0 || box.srcY != 0 || box.srcZ != 0) {
      return call.Malformed();
    }
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = request.data.data();
  } else {
    const BoxEnd end{box.srcDevice, box.srcPitch, box.srcHeight, box.srcXInBytes, box.srcY, box.srcZ};
    uint64_t address = 0;
    if (!ResolveEnd(call, end, box, route == CopyRoute::kFromStaging, &box.srcMemoryType, &address, &from, &ignored)) {
      return FinishAfter(call, stream, CUDA_ERROR_INVALID_VALUE, request.mark, {}, reports);
    }
    box.srcDevice = address;
    box.srcHost = reinterpret_cast<const void*>(address);
  }
  box.dstArray = to_array;
  if (to_array != nullptr) {
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  } else {
    const BoxEnd end{box.dstDevice, box.dstPitch, box.dstHeight, box.dstXInBytes, box.dstY, box.dstZ};
    uint64_t address = 0;
    if (!ResolveEnd(call, end, box, route == CopyRoute::kToStaging, &box.dstMemoryType, &address, &to, &written)) {
      return FinishAfter(call, stream, CUDA_ERROR_INVALID_VALUE, request.mark, {}, reports);
    }
    box.dstDevice = address;
    box.dstHost = reinterpret_cast<void*>(address);
  }
  const bool from_host = box.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = box.dstMemoryType == CU_MEMORYTYPE_HOST;
  const uint64_t bytes = box.WidthInBytes * box.Height * box.Depth;
  CountCopy(call, from_host, to_host, bytes);
  if (!from_host && !to_host) AwaitCopy(call, stream, to, from, bytes);
  CUresult result = CUDA_SUCCESS;
  // Each row may count by itself.
  if (from_host && !to_host && route == CopyRoute::kDirect) {
    result = call.worker().implicit_order().Keep(stream, box.WidthInBytes);
  }
  const bool in_context = from_context.is_null() && to_context.is_null();
  if (result == CUDA_SUCCESS) {
    result = in_context ? call.driver().cuMemcpy3DAsync_v2(&box, stream)
                        : CopyBetweenContexts(call, box, from_context, to_context, stream);
  }
  FinishAfter(call, stream, result, request.mark, written, reports);
}

}  // namespace

#define TESSERA_COPY(name, how) \
  void Do_##name(CallContext& call, const name##Request& request) { how(call, request); }

TESSERA_COPY(cuMemcpy, CopyBytes)
TESSERA_COPY(cuMemcpyAsync, CopyBytes)
TESSERA_COPY(cuMemcpyHtoD_v2, CopyBytes)
TESSERA_COPY(cuMemcpyHtoDAsync_v2, CopyBytes)
TESSERA_COPY(cuMemcpyDtoH_v2, CopyBytes)
TESSERA_COPY(cuMemcpyDtoHAsync_v2, CopyBytes)
TESSERA_COPY(cuMemcpyDtoD_v2, CopyBytes)
TESSERA_COPY(cuMemcpyDtoDAsync_v2, CopyBytes)
TESSERA_COPY(cuMemcpyPeer, CopyPeer)
TESSERA_COPY(cuMemcpyPeerAsync, CopyPeer)
TESSERA_COPY(cuMemcpyDtoA_v2, CopyBox)
TESSERA_COPY(cuMemcpyAtoD_v2, CopyBox)
TESSERA_COPY(cuMemcpyHtoA_v2, CopyBox)
TESSERA_COPY(cuMemcpyHtoAAsync_v2, CopyBox)
TESSERA_COPY(cuMemcpyAtoH_v2, CopyBox)
TESSERA_COPY(cuMemcpyAtoHAsync_v2, CopyBox)
TESSERA_COPY(cuMemcpyAtoA_v2, CopyBox)
TESSERA_COPY(cuMemcpy2D_v2, CopyBox)
TESSERA_COPY(cuMemcpy2DAsync_v2, CopyBox)
TESSERA_COPY(cuMemcpy2DUnaligned_v2, CopyBox)
TESSERA_COPY(cuMemcpy3D_v2, CopyBox)
TESSERA_COPY(cuMemcpy3DAsync_v2, CopyBox)
TESSERA_COPY(cuMemcpy3DPeer, CopyBox)
TESSERA_COPY(cuMemcpy3DPeerAsync, CopyBox)
TESSERA_COPY(cuMemcpyBatchAsync, CopyBytes)
TESSERA_COPY(cuMemcpyBatchAsync_v2, CopyBytes)
TESSERA_COPY(cuMemcpy3DBatchAsync, CopyBox)
TESSERA_COPY(cuMemcpy3DBatchAsync_v2, CopyBox)

#undef TESSERA_COPY

}  // namespace tessera
