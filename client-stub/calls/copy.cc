// Copies: every form reduced to bytes in a row (copy_bytes.h) or a box (copy_box.h).

#include <cuda.h>

#include <optional>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_box.h"
#include "client-stub/copies/copy_bytes.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/servers/copy_across.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/transfers/box_ends.h"
#include "generated/client/copy.h"

namespace tessera {
namespace {

uint64_t Number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// One end of a copy to or from a one-dimensional array, at a byte offset.
void SetArray(CUDA_MEMCPY3D* box, bool source, CUarray array, size_t offset) {
  (source ? box->srcMemoryType : box->dstMemoryType) = CU_MEMORYTYPE_ARRAY;
  (source ? box->srcArray : box->dstArray) = array;
  (source ? box->srcXInBytes : box->dstXInBytes) = offset;
}

CUDA_MEMCPY3D Row(size_t bytes) {
  CUDA_MEMCPY3D box{};
  box.WidthInBytes = bytes;
  box.Height = 1;
  box.Depth = 1;
  return box;
}

CUDA_MEMCPY3D HostToArray(CUarray array, size_t offset, const void* host, size_t bytes) {
  CUDA_MEMCPY3D box = Row(bytes);
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = host;
  SetArray(&box, false, array, offset);
  return box;
}

CUDA_MEMCPY3D ArrayToHost(void* host, CUarray array, size_t offset, size_t bytes) {
  CUDA_MEMCPY3D box = Row(bytes);
  box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.dstHost = host;
  SetArray(&box, true, array, offset);
  return box;
}

// A copy with an end at another server, or nothing. The contexts say whose the memory is, which its address says as well: they
// only have to be contexts.
std::optional<CUresult> CopyPeerAcross(Call& call, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                       size_t bytes, CUstream stream, bool async) {
  if (!call.ok()) return std::nullopt;
  for (const CUcontext handle : {to_context, from_context}) {
    const Context* context = Client::Get().FindContext(handle);
    if (handle != nullptr && context == nullptr) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
    if (context != nullptr && !context->active()) return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  const uint32_t own_record = call.info().id;
  call.ActAs(cuMemcpyAsyncRequest::kId);
  const auto done = CopyAcross(call, to, from, bytes, stream, CopyForm{async, true, true});
  if (!done) call.ActAs(own_record);
  return done;
}

template <typename Request>
CUresult CopyPeer(Call& call, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                  CUstream stream, bool async) {
  if (SeveralServers()) [[unlikely]] {
    if (const auto done = CopyPeerAcross(call, to, to_context, from, from_context, bytes, stream, async)) return *done;
  }
  UsedStream used;
  if (!call.ok() || !UseStreamInfo(call, stream, &used)) return call.result();
  if (call.Fail(Captures().CheckUncapturable(used.ref)) != CUDA_SUCCESS) return call.result();
  Request request;
  request.stream = used.id;
  // No context means the current one.
  request.dst_context = to_context == nullptr ? call.context() : call.Use(HandleKind::kContext, to_context);
  request.src_context = from_context == nullptr ? call.context() : call.Use(HandleKind::kContext, from_context);
  if (!call.ok() || bytes == 0) return call.result();
  const ClientMemory& memory = call.session().memory();
  if (memory.Classify(to, bytes) != Place::kDevice || memory.Classify(from, bytes) != Place::kDevice) {
    // Pinned and registered memory has no device: an ordinary copy. Other host memory is refused.
    const CopyForm form{async, true, true};
    call.ActAs(cuMemcpyAsyncRequest::kId);
    return CopyBytes(call, to, from, bytes, stream, form);
  }
  request.dst = to;
  request.src = from;
  request.bytes = bytes;
  WorkOnRanges work(call, used.id, Range{to, bytes}, Range{from, bytes});
  if (work.result() != CUDA_SUCCESS) return work.result();
  return async ? work.Async(request) : work.SyncWork(request);
}

CUresult Copy2D(Call& call, const CUDA_MEMCPY2D* copy, CUstream stream, bool async) {
  if (!call.ok()) return call.result();
  if (copy == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return CopyBoxAnywhere(call, BoxOf(*copy), stream, async, false);
}

CUresult Copy3D(Call& call, const CUDA_MEMCPY3D* copy, CUstream stream, bool async) {
  if (!call.ok()) return call.result();
  if (copy == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return CopyBoxAnywhere(call, *copy, stream, async, true);
}

constexpr CopyForm kToDevice{false, true, false};
constexpr CopyForm kToDeviceAsync{true, true, false};
constexpr CopyForm kFromDevice{false, false, true};
constexpr CopyForm kFromDeviceAsync{true, false, true};
constexpr CopyForm kOnDevice{false, true, true};
constexpr CopyForm kOnDeviceAsync{true, true, true};
constexpr CopyForm kAnywhere{false, false, false};
constexpr CopyForm kAnywhereAsync{true, false, false};

}  // namespace

CUresult Custom_cuMemcpy(Call& call, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return CopyBytesAnywhere(call, dst, src, ByteCount, nullptr, kAnywhere);
}
CUresult Custom_cuMemcpyAsync(Call& call, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return CopyBytesAnywhere(call, dst, src, ByteCount, hStream, kAnywhereAsync);
}
CUresult Custom_cuMemcpyHtoD_v2(Call& call, CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return CopyBytesAnywhere(call, dstDevice, Number(srcHost), ByteCount, nullptr, kToDevice);
}
CUresult Custom_cuMemcpyHtoDAsync_v2(Call& call, CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
  return CopyBytesAnywhere(call, dstDevice, Number(srcHost), ByteCount, hStream, kToDeviceAsync);
}
CUresult Custom_cuMemcpyDtoH_v2(Call& call, void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return CopyBytesAnywhere(call, Number(dstHost), srcDevice, ByteCount, nullptr, kFromDevice);
}
CUresult Custom_cuMemcpyDtoHAsync_v2(Call& call, void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return CopyBytesAnywhere(call, Number(dstHost), srcDevice, ByteCount, hStream, kFromDeviceAsync);
}
CUresult Custom_cuMemcpyDtoD_v2(Call& call, CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return CopyBytesAnywhere(call, dstDevice, srcDevice, ByteCount, nullptr, kOnDevice);
}
CUresult Custom_cuMemcpyDtoDAsync_v2(Call& call, CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                     CUstream hStream) {
  return CopyBytesAnywhere(call, dstDevice, srcDevice, ByteCount, hStream, kOnDeviceAsync);
}

CUresult Custom_cuMemcpyPeer(Call& call, CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                             size_t ByteCount) {
  return CopyPeer<cuMemcpyPeerRequest>(call, dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, false);
}
CUresult Custom_cuMemcpyPeerAsync(Call& call, CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                  CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return CopyPeer<cuMemcpyPeerAsyncRequest>(call, dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true);
}

CUresult Custom_cuMemcpyDtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
  CUDA_MEMCPY3D box = Row(ByteCount);
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = srcDevice;
  SetArray(&box, false, dstArray, dstOffset);
  return CopyBoxAnywhere(call, box, nullptr, false, true);
}
CUresult Custom_cuMemcpyAtoD_v2(Call& call, CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  CUDA_MEMCPY3D box = Row(ByteCount);
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = dstDevice;
  SetArray(&box, true, srcArray, srcOffset);
  return CopyBoxAnywhere(call, box, nullptr, false, true);
}
CUresult Custom_cuMemcpyAtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                                size_t ByteCount) {
  CUDA_MEMCPY3D box = Row(ByteCount);
  SetArray(&box, true, srcArray, srcOffset);
  SetArray(&box, false, dstArray, dstOffset);
  return CopyBoxAnywhere(call, box, nullptr, false, true);
}
CUresult Custom_cuMemcpyHtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
  return CopyBoxAnywhere(call, HostToArray(dstArray, dstOffset, srcHost, ByteCount), nullptr, false, true);
}
CUresult Custom_cuMemcpyHtoAAsync_v2(Call& call, CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                                     CUstream hStream) {
  return CopyBoxAnywhere(call, HostToArray(dstArray, dstOffset, srcHost, ByteCount), hStream, true, true);
}
CUresult Custom_cuMemcpyAtoH_v2(Call& call, void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return CopyBoxAnywhere(call, ArrayToHost(dstHost, srcArray, srcOffset, ByteCount), nullptr, false, true);
}
CUresult Custom_cuMemcpyAtoHAsync_v2(Call& call, void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                                     CUstream hStream) {
  return CopyBoxAnywhere(call, ArrayToHost(dstHost, srcArray, srcOffset, ByteCount), hStream, true, true);
}

CUresult Custom_cuMemcpy2D_v2(Call& call, const CUDA_MEMCPY2D* pCopy) { return Copy2D(call, pCopy, nullptr, false); }
CUresult Custom_cuMemcpy2DUnaligned_v2(Call& call, const CUDA_MEMCPY2D* pCopy) { return Copy2D(call, pCopy, nullptr, false); }
CUresult Custom_cuMemcpy2DAsync_v2(Call& call, const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return Copy2D(call, pCopy, hStream, true);
}
CUresult Custom_cuMemcpy3D_v2(Call& call, const CUDA_MEMCPY3D* pCopy) { return Copy3D(call, pCopy, nullptr, false); }
CUresult Custom_cuMemcpy3DAsync_v2(Call& call, const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return Copy3D(call, pCopy, hStream, true);
}

}  // namespace tessera
