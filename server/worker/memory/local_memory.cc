#include "server/worker/memory/local_memory.h"

#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

LimitCharges& Limits(CallContext& call) { return call.worker().parts().memory().charges().limits(); }

// False: the context has ended.
bool EnterContext(CallContext& call, HandleId context) {
  uint64_t object = 0;
  return call.worker().objects().Find(context, &object) &&
         call.worker().SetContext(reinterpret_cast<CUcontext>(object)) == CUDA_SUCCESS;
}

CUresult TryOnce(CallContext& call, const LocalNeeds& needs, const std::function<CUresult()>& work) {
  Worker& worker = call.worker();
  std::vector<HandleId> begun;
  CUresult result = CUDA_SUCCESS;
  for (const auto& [context, bytes] : needs) {
    if (!EnterContext(call, context)) continue;  // the context has ended; the driver reports that itself
    if (!Limits(call).BeginLaunch(worker.objects().HolderOf(context).value(), CurrentDevice(call), bytes)) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
      break;
    }
    begun.push_back(context);
  }
  worker.SetContext(call.header());
  if (result == CUDA_SUCCESS) result = work();
  for (const HandleId context : begun) {
    if (EnterContext(call, context)) Limits(call).EndLaunch(worker.objects().HolderOf(context).value(), context);
  }
  worker.SetContext(call.header());
  return result;
}

}  // namespace

CUresult WithLocalMemory(CallContext& call, const LocalNeeds& needs, const std::function<CUresult()>& work) {
  if (needs.empty()) return work();
  return WithRoom(call, 0, [&] { return TryOnce(call, needs, work); });
}

bool IsOwnLocalMemory(CallContext& call, HandleId context, uint64_t local_bytes) {
  if (!EnterContext(call, context)) return true;
  return local_bytes <= Limits(call).OwnBytes(call.worker().objects().HolderOf(context).value(), CurrentDevice(call));
}

bool LocalLaunch::Begin(CallContext& call, CUstream stream, uint64_t local_bytes) {
  const HandleId context(call.header().context);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  counted_ = false;
  if (context.is_null() || Limits(call).Fits(context, local_bytes)) return true;
  if (call.driver().cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return true;
  const auto begin = [&] {
    const uint64_t holder = call.holder().value();
    return Limits(call).BeginLaunch(holder, CurrentDevice(call), local_bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  };
  counted_ = WithoutReserves(call, begin) == CUDA_SUCCESS;
  return counted_;
}

bool LocalLaunch::End(CallContext& call, CUresult result) {
  if (!counted_) return false;
  Limits(call).EndLaunch(call.holder().value(), HandleId(call.header().context));
  if (result != CUDA_ERROR_OUT_OF_MEMORY || std::exchange(again_, true)) return false;
  const CUdevice device = CurrentDevice(call);
  return ReleaseOwnReserves(call.worker(), device) || AskOthersForRoom(call.worker(), device, 0);
}

}  // namespace tessera
