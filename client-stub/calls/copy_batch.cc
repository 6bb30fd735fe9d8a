// Batches of copies, and boxes that name two contexts: each copy of a batch becomes a record of its own.
//
// The copies of a batch may happen in any order among each other; they happen in the order given. What is checked, and with
// which code, was measured on an H200 with driver 580; a batch of which anything is wrong copies nothing.

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_box.h"
#include "client-stub/copies/copy_bytes.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/servers/copy_across.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/transfers/box_ends.h"
#include "generated/client/copy.h"
#include "generated/messages/texture.h"

namespace tessera {
namespace {

// A batch needs a stream of its own, and cannot be captured (900, which leaves the capture as it is).
bool MayBatch(Call& call, CUstream stream) {
  bool capturing = false;
  if (SeveralServers()) call.RouteToHandle(stream);
  if (!call.ok()) return false;
  if (stream == CU_STREAM_LEGACY || (stream == nullptr && !call.per_thread_stream())) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS;
  }
  if (call.Fail(CheckStreamUse(call, stream, &capturing)) != CUDA_SUCCESS) return false;
  return !capturing || call.Fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) == CUDA_SUCCESS;
}

bool ReadOf(CUmemcpySrcAccessOrder order, unsigned flags, SourceRead* read) {
  if ((flags & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}) != 0) return false;
  switch (order) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: *read = SourceRead::kInStreamOrder; return true;
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: *read = SourceRead::kInCall; return true;
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY: *read = SourceRead::kAsUsual; return true;
    default: return false;
  }
}

CUresult CopyBatch(Call& call, const CUdeviceptr* to, const CUdeviceptr* from, const size_t* bytes, size_t count,
                   const CUmemcpyAttributes* attributes, const size_t* first, size_t attribute_count, size_t* failed,
                   CUstream stream) {
  if (!MayBatch(call, stream)) return call.result();
  if (failed != nullptr) *failed = SIZE_MAX;
  const auto invalid = [&] { return call.Fail(CUDA_ERROR_INVALID_VALUE); };
  if (count == 0 || attribute_count == 0 || attribute_count > count || to == nullptr || from == nullptr || bytes == nullptr ||
      attributes == nullptr || first == nullptr || first[0] != 0) {
    return invalid();
  }
  // Attributes hold from their first copy to that of the next ones.
  std::vector<SourceRead> reads(attribute_count);
  for (size_t i = 0; i < attribute_count; ++i) {
    if (!ReadOf(attributes[i].srcAccessOrder, attributes[i].flags, &reads[i]) || first[i] >= count ||
        (i != 0 && first[i] <= first[i - 1])) {
      return invalid();
    }
  }
  // Memory of another server is looked up there.
  const auto is_memory = [&](CUdeviceptr address, size_t size) {
    Session* owner = SeveralServers() ? OwnerOf(address).session : nullptr;
    return (owner != nullptr ? *owner : call.session()).memory().Classify(address, size) != Place::kInvalid;
  };
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0 && to[i] != 0 && from[i] != 0 && is_memory(to[i], bytes[i]) && is_memory(from[i], bytes[i])) {
      continue;
    }
    if (failed != nullptr) *failed = i;
    return invalid();
  }
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    if (attribute + 1 < attribute_count && first[attribute + 1] == i) ++attribute;
    CopyForm form;
    form.async = true;
    form.read = reads[attribute];
    if (const CUresult result = CopyBytesAnywhere(call, to[i], from[i], bytes[i], stream, form); result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

// Bytes of an element of an array; 0 when the call failed.
uint64_t ElementBytes(Call& call, CUarray array) {
  cuArray3DGetDescriptor_v2Request request;
  request.hArray = call.Use(HandleKind::kArray, array);
  cuArray3DGetDescriptor_v2Reply reply;
  if (!call.ok() || call.SyncAs(request, &reply) != CUDA_SUCCESS) return 0;
  const CUDA_ARRAY3D_DESCRIPTOR& descriptor = reply.pArrayDescriptor;
  switch (descriptor.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return descriptor.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return uint64_t{2} * descriptor.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return uint64_t{4} * descriptor.NumChannels;
    default: call.Fail(CUDA_ERROR_NOT_SUPPORTED); return 0;  // block compressed and video formats
  }
}

// One end of a copy of a batch in the fields of the 3D form. `element_bytes`: what its lengths and offsets count.
struct BatchEnd {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  CUdeviceptr address = 0;
  CUarray array = nullptr;
  size_t x = 0, y = 0, z = 0, pitch = 0, rows = 0;
};

bool EndOf(const CUmemcpy3DOperand& operand, const CUextent3D& extent, uint64_t element_bytes, BatchEnd* end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const auto& array = operand.op.array;
    *end = {CU_MEMORYTYPE_ARRAY, 0, array.array, array.offset.x * element_bytes, array.offset.y, array.offset.z, 0, 0};
    return true;
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return false;
  const auto& pointer = operand.op.ptr;
  // 0 means as long as the copy itself.
  if ((pointer.rowLength != 0 && pointer.rowLength < extent.width) ||
      (pointer.layerHeight != 0 && pointer.layerHeight < extent.height)) {
    return false;
  }
  *end = {CU_MEMORYTYPE_UNIFIED, pointer.ptr, nullptr, 0, 0, 0, pointer.rowLength * element_bytes, pointer.layerHeight};
  return true;
}

bool BoxOf(Call& call, const CUDA_MEMCPY3D_BATCH_OP& op, CUDA_MEMCPY3D* box) {
  uint64_t element_bytes = 1;
  for (const CUmemcpy3DOperand* operand : {&op.src, &op.dst}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    element_bytes = ElementBytes(call, operand->op.array.array);
    if (element_bytes == 0) return false;
  }
  BatchEnd from, to;
  if (op.extent.width == 0 || op.extent.height == 0 || op.extent.depth == 0 || !EndOf(op.src, op.extent, element_bytes, &from) ||
      !EndOf(op.dst, op.extent, element_bytes, &to)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS;
  }
  *box = {};
  box->srcMemoryType = from.type;
  box->srcDevice = from.address;
  box->srcArray = from.array;
  box->srcXInBytes = from.x;
  box->srcY = from.y;
  box->srcZ = from.z;
  box->srcPitch = from.pitch;
  box->srcHeight = from.rows;
  box->dstMemoryType = to.type;
  box->dstDevice = to.address;
  box->dstArray = to.array;
  box->dstXInBytes = to.x;
  box->dstY = to.y;
  box->dstZ = to.z;
  box->dstPitch = to.pitch;
  box->dstHeight = to.rows;
  box->WidthInBytes = op.extent.width * element_bytes;
  box->Height = op.extent.height;
  box->Depth = op.extent.depth;
  return true;
}

CUresult CopyBoxBatch(Call& call, size_t count, const CUDA_MEMCPY3D_BATCH_OP* ops, size_t* failed, unsigned long long flags,
                      CUstream stream) {
  if (!MayBatch(call, stream)) return call.result();
  if (failed != nullptr) *failed = SIZE_MAX;
  if (count == 0 || ops == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<CUDA_MEMCPY3D> boxes(count);
  std::vector<SourceRead> reads(count);
  for (size_t i = 0; i < count; ++i) {
    BoxEnds ends;
    if (!ReadOf(ops[i].srcAccessOrder, ops[i].flags, &reads[i])) call.Fail(CUDA_ERROR_INVALID_VALUE);
    if (call.ok() && BoxOf(call, ops[i], &boxes[i]) && FindEnds(call, boxes[i], &ends)) continue;
    if (failed != nullptr) *failed = i;
    return call.result();
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = CopyBoxAnywhere(call, boxes[i], stream, true, true, reads[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// The context that an end names: the current one where it names none. Addresses mean the same in all contexts, so it
// matters for arrays alone, and an array's goes into `*of_array` when it is not the current one.
bool CheckContext(Call& call, CUmemorytype type, CUcontext context, void** of_array) {
  if (type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_UNIFIED || context == nullptr) return true;
  if (const Context* other = SeveralServers() ? Client::Get().FindContext(context) : nullptr;
      other != nullptr && other->session != &call.session()) {
    // The copy finds out whose memory it is (copy_across.h).
    return other->active() || call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED) == CUDA_SUCCESS;
  }
  const HandleId id = call.Use(HandleKind::kContext, context);
  if (!call.ok()) return false;
  if (type == CU_MEMORYTYPE_ARRAY && id != call.context()) *of_array = reinterpret_cast<void*>(id.value());
  return true;
}

CUresult CopyPeerBox(Call& call, const CUDA_MEMCPY3D_PEER* copy, CUstream stream, bool async) {
  if (!call.ok()) return call.result();
  if (copy == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (SeveralServers()) call.RouteToHandle(stream);
  UsedStream used;
  if (!UseStreamInfo(call, stream, &used)) return call.result();
  if (call.Fail(Captures().CheckUncapturable(used.ref)) != CUDA_SUCCESS) return call.result();
  CUDA_MEMCPY3D box{};
  // Where CUDA_MEMCPY3D_PEER has its contexts CUDA_MEMCPY3D has nothing.
  if (!CheckContext(call, copy->srcMemoryType, copy->srcContext, &box.reserved0) ||
      !CheckContext(call, copy->dstMemoryType, copy->dstContext, &box.reserved1)) {
    return call.result();
  }
  box.srcXInBytes = copy->srcXInBytes;
  box.srcY = copy->srcY;
  box.srcZ = copy->srcZ;
  box.srcLOD = copy->srcLOD;
  box.srcMemoryType = copy->srcMemoryType;
  box.srcHost = copy->srcHost;
  box.srcDevice = copy->srcDevice;
  box.srcArray = copy->srcArray;
  box.srcPitch = copy->srcPitch;
  box.srcHeight = copy->srcHeight;
  box.dstXInBytes = copy->dstXInBytes;
  box.dstY = copy->dstY;
  box.dstZ = copy->dstZ;
  box.dstLOD = copy->dstLOD;
  box.dstMemoryType = copy->dstMemoryType;
  box.dstHost = copy->dstHost;
  box.dstDevice = copy->dstDevice;
  box.dstArray = copy->dstArray;
  box.dstPitch = copy->dstPitch;
  box.dstHeight = copy->dstHeight;
  box.WidthInBytes = copy->WidthInBytes;
  box.Height = copy->Height;
  box.Depth = copy->Depth;
  return CopyBoxAnywhere(call, box, stream, async, true);
}

}  // namespace

CUresult Custom_cuMemcpyBatchAsync(Call& call, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                   CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                                   CUstream hStream) {
  return CopyBatch(call, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}
CUresult Custom_cuMemcpyBatchAsync_v2(Call& call, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                      CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
  return CopyBatch(call, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream);
}
CUresult Custom_cuMemcpy3DBatchAsync(Call& call, size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                     unsigned long long flags, CUstream hStream) {
  return CopyBoxBatch(call, numOps, opList, failIdx, flags, hStream);
}
CUresult Custom_cuMemcpy3DBatchAsync_v2(Call& call, size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                        CUstream hStream) {
  return CopyBoxBatch(call, numOps, opList, nullptr, flags, hStream);
}
CUresult Custom_cuMemcpy3DPeer(Call& call, const CUDA_MEMCPY3D_PEER* pCopy) { return CopyPeerBox(call, pCopy, nullptr, false); }
CUresult Custom_cuMemcpy3DPeerAsync(Call& call, const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return CopyPeerBox(call, pCopy, hStream, true);
}

}  // namespace tessera
