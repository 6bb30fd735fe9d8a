// Memory and events of other processes: the 64 bytes of cuIpc* carry a token of the server's.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"
#include "client-stub/sharing/share_token.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client/peer.h"
#include "protocol/runtime/client_support.h"

namespace tessera {

// Any address inside a block names the block, as natively.
CUresult Custom_cuIpcGetMemHandle(Call& call, CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  if (!call.ok()) return call.result();
  if (pHandle == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto allocation = call.session().memory().device().Find(dptr);
  if (!allocation || allocation->kind != DeviceAllocation::Kind::kBlock) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuIpcGetMemHandleRequest request;
  request.address = allocation->range.base;
  request.bytes = allocation->range.bytes;  // as it was asked for: what the opener may know of it
  cuIpcGetMemHandleReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  TokenBytes token;
  if (!TokenOf(reply.token, &token)) return call.MalformedReply();
  WriteIpcHandle(IpcForm::kMemory, token, std::span(pHandle->reserved));
  return CUDA_SUCCESS;
}

CUresult Custom_cuIpcOpenMemHandle_v2(Call& call, CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  if (!call.ok()) return call.result();
  if (pdptr == nullptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto token = ReadIpcHandle(IpcForm::kMemory, std::span(handle.reserved));
  if (!token) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuIpcOpenMemHandle_v2Request request;
  request.token = *token;
  cuIpcOpenMemHandle_v2Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  DeviceAllocation allocation;
  allocation.range = Range{reply.address, reply.bytes};
  allocation.kind = DeviceAllocation::Kind::kForeign;
  allocation.device = call.Ordinal(reply.device);
  allocation.context = call.owner_context();
  DeviceMemory& memory = call.session().memory().device();
  if (!memory.Find(reply.address)) memory.Add(allocation);
  *pdptr = reply.address;
  return CUDA_SUCCESS;
}

CUresult Custom_cuIpcCloseMemHandle(Call& call, CUdeviceptr dptr) {
  if (!call.ok()) return call.result();
  DeviceMemory& memory = call.session().memory().device();
  const auto allocation = memory.Find(dptr);
  if (!allocation || allocation->kind != DeviceAllocation::Kind::kForeign || allocation->range.base != dptr) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  cuIpcCloseMemHandleRequest request;
  request.address = dptr;
  cuIpcCloseMemHandleReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS && reply.last) memory.Remove(dptr);
  return result;
}

CUresult Custom_cuIpcGetEventHandle(Call& call, CUipcEventHandle* pHandle, CUevent event) {
  if (call.ok() && (pHandle == nullptr || event == nullptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuIpcGetEventHandleRequest request;
  request.event = call.Use(HandleKind::kEvent, event);
  if (!call.ok()) return call.result();
  const EventInfo* info = Events().Find(request.event);
  // Only events of this process are handed on.
  if (info == nullptr || (info->flags & CU_EVENT_INTERPROCESS) == 0 || info->foreign) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  cuIpcGetEventHandleReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  TokenBytes token;
  if (!TokenOf(reply.token, &token)) return call.MalformedReply();
  WriteIpcHandle(IpcForm::kEvent, token, std::span(pHandle->reserved));
  return CUDA_SUCCESS;
}

CUresult Custom_cuIpcOpenEventHandle(Call& call, CUevent* phEvent, CUipcEventHandle handle) {
  if (!call.ok()) return call.result();
  if (phEvent == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto token = ReadIpcHandle(IpcForm::kEvent, std::span(handle.reserved));
  if (!token) return call.Fail(CUDA_ERROR_MAP_FAILED);  // as driver 580
  cuIpcOpenEventHandleRequest request;
  request.token = *token;
  request.event = call.Mint(HandleKind::kEvent);
  if (!call.ok()) return call.result();
  const EventInfo* info = Events().Insert(request.event, [&](EventInfo& event) {
    event.Begin(call.owner_context(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, true);
  });
  if (info == nullptr) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) {
    Events().Erase(request.event);
    return result;
  }
  *phEvent = ToObject<CUevent>(request.event);
  return CUDA_SUCCESS;
}

}  // namespace tessera
