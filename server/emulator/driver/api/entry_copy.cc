// Copies in all forms.
#include <cstring>

#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/copy.h"

using namespace tessera::emulator;

namespace {

// Asynchronous copy: returns when natively the call may.
CUresult CopyAsync(const CUDA_MEMCPY3D& copy, CUstream handle) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  std::shared_ptr<CopyCommand> command;
  RETURN_ON_ERROR(CopyCommand::Make(*context, copy, &command));
  const bool pageable_source = command->source().pageable;
  const bool wait = command->destination().pageable || (command->source().is_host && command->destination().is_host);
  if (command->empty() && !IsCapturing(*stream)) return CUDA_SUCCESS;
  const auto idle = [&] {
    const FencePtr tail = stream->tail();
    return (tail == nullptr || tail->done()) && !context->HoldsBack();
  };
  if ((pageable_source || (command->MayReadEarly() && idle())) && !IsCapturing(*stream)) command->StageSource();
  FencePtr fence;
  RETURN_ON_ERROR(Enqueue(context, stream, command, &fence));
  return wait && fence != nullptr ? context->WaitFor(fence) : CUDA_SUCCESS;
}

// Synchronous copy, on the legacy stream. Between device memories it does not wait, as natively.
CUresult Copy(const CUDA_MEMCPY3D& copy) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(CU_STREAM_LEGACY, &context, &stream));
  std::shared_ptr<CopyCommand> command;
  RETURN_ON_ERROR(CopyCommand::Make(*context, copy, &command));
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  RETURN_ON_ERROR(CheckUnsafeCall());
  if (command->empty()) return CUDA_SUCCESS;
  const bool wait = command->source().is_host || command->destination().is_host;
  const FencePtr fence = context->Submit(stream, command);
  return wait ? context->WaitFor(fence) : CUDA_SUCCESS;
}

CUDA_MEMCPY3D From2D(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D whole{};
  whole.srcXInBytes = copy.srcXInBytes;
  whole.srcY = copy.srcY;
  whole.srcMemoryType = copy.srcMemoryType;
  whole.srcHost = copy.srcHost;
  whole.srcDevice = copy.srcDevice;
  whole.srcArray = copy.srcArray;
  whole.srcPitch = copy.srcPitch;
  whole.srcHeight = copy.srcY + copy.Height;
  whole.dstXInBytes = copy.dstXInBytes;
  whole.dstY = copy.dstY;
  whole.dstMemoryType = copy.dstMemoryType;
  whole.dstHost = copy.dstHost;
  whole.dstDevice = copy.dstDevice;
  whole.dstArray = copy.dstArray;
  whole.dstPitch = copy.dstPitch;
  whole.dstHeight = copy.dstY + copy.Height;
  whole.WidthInBytes = copy.WidthInBytes;
  whole.Height = copy.Height;
  whole.Depth = 1;
  return whole;
}

CUresult FromPeer(const CUDA_MEMCPY3D_PEER& copy, CUDA_MEMCPY3D* whole) {
  for (CUcontext handle : {copy.srcContext, copy.dstContext}) {
    const ContextPtr context = GetDriver().contexts.Find(handle);
    RETURN_IF(context == nullptr || !context->active(), CUDA_ERROR_INVALID_CONTEXT);
  }
  static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D));
  memcpy(static_cast<void*>(whole), &copy, sizeof copy);  // alike but for the contexts
  whole->reserved0 = whole->reserved1 = nullptr;
  return CUDA_SUCCESS;
}

constexpr CUmemorytype kHost = CU_MEMORYTYPE_HOST, kDevice = CU_MEMORYTYPE_DEVICE, kUnified = CU_MEMORYTYPE_UNIFIED;
uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUDA_MEMCPY3D WithArray(CUarray to, size_t to_offset, CUarray from, size_t from_offset, CUDA_MEMCPY3D copy) {
  if (to != nullptr) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to;
    copy.dstXInBytes = to_offset;
  }
  if (from != nullptr) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from;
    copy.srcXInBytes = from_offset;
  }
  return copy;
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) { return Copy(LinearCopy(kUnified, dst, kUnified, src, n)); }
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
  return CopyAsync(LinearCopy(kUnified, dst, kUnified, src, n), stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t n) {
  return Copy(LinearCopy(kDevice, dst, kHost, Address(src), n));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t n, CUstream stream) {
  return CopyAsync(LinearCopy(kDevice, dst, kHost, Address(src), n), stream);
}
CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t n) { return Copy(LinearCopy(kHost, Address(dst), kDevice, src, n)); }
CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t n, CUstream stream) {
  return CopyAsync(LinearCopy(kHost, Address(dst), kDevice, src, n), stream);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n) { return Copy(LinearCopy(kDevice, dst, kDevice, src, n)); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
  return CopyAsync(LinearCopy(kDevice, dst, kDevice, src, n), stream);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t n) {
  RETURN_ON_ERROR(CheckEntry());
  CUDA_MEMCPY3D_PEER peer{};
  const CUDA_MEMCPY3D linear = LinearCopy(kDevice, dst, kDevice, src, n);
  memcpy(static_cast<void*>(&peer), &linear, sizeof peer);
  peer.srcContext = srcContext;
  peer.dstContext = dstContext;
  return cuMemcpy3DPeer(&peer);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t n,
                           CUstream stream) {
  RETURN_ON_ERROR(CheckEntry());
  CUDA_MEMCPY3D_PEER peer{};
  const CUDA_MEMCPY3D linear = LinearCopy(kDevice, dst, kDevice, src, n);
  memcpy(static_cast<void*>(&peer), &linear, sizeof peer);
  peer.srcContext = srcContext;
  peer.dstContext = dstContext;
  return cuMemcpy3DPeerAsync(&peer, stream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(From2D(*pCopy));
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) { return cuMemcpy2D_v2(pCopy); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  return CopyAsync(From2D(*pCopy), hStream);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(*pCopy);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  return CopyAsync(*pCopy, hStream);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D copy;
  RETURN_ON_ERROR(FromPeer(*pCopy, &copy));
  return Copy(copy);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pCopy == nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D copy;
  RETURN_ON_ERROR(FromPeer(*pCopy, &copy));
  return CopyAsync(copy, hStream);
}

CUresult cuMemcpyAtoA_v2(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t n) {
  RETURN_IF(dst == nullptr || src == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(WithArray(dst, dst_offset, src, src_offset, LinearCopy(kDevice, 0, kDevice, 0, n)));
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t src_offset, size_t n) {
  RETURN_IF(src == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(WithArray(nullptr, 0, src, src_offset, LinearCopy(kDevice, dst, kDevice, 0, n)));
}
CUresult cuMemcpyDtoA_v2(CUarray dst, size_t dst_offset, CUdeviceptr src, size_t n) {
  RETURN_IF(dst == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(WithArray(dst, dst_offset, nullptr, 0, LinearCopy(kDevice, 0, kDevice, src, n)));
}
CUresult cuMemcpyAtoH_v2(void* dst, CUarray src, size_t src_offset, size_t n) {
  RETURN_IF(src == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(WithArray(nullptr, 0, src, src_offset, LinearCopy(kHost, Address(dst), kDevice, 0, n)));
}
CUresult cuMemcpyHtoA_v2(CUarray dst, size_t dst_offset, const void* src, size_t n) {
  RETURN_IF(dst == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Copy(WithArray(dst, dst_offset, nullptr, 0, LinearCopy(kDevice, 0, kHost, Address(src), n)));
}
CUresult cuMemcpyAtoHAsync_v2(void* dst, CUarray src, size_t src_offset, size_t n, CUstream stream) {
  RETURN_IF(src == nullptr, CUDA_ERROR_INVALID_VALUE);
  return CopyAsync(WithArray(nullptr, 0, src, src_offset, LinearCopy(kHost, Address(dst), kDevice, 0, n)), stream);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dst, size_t dst_offset, const void* src, size_t n, CUstream stream) {
  RETURN_IF(dst == nullptr, CUDA_ERROR_INVALID_VALUE);
  return CopyAsync(WithArray(dst, dst_offset, nullptr, 0, LinearCopy(kDevice, 0, kHost, Address(src), n)), stream);
}

}  // extern "C"
