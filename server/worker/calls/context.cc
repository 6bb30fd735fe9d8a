// Contexts that the program creates, and synchronising them.

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/contexts/context_end.h"
#include "server/worker/done_words.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/streams/synchronize.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuCtxCreate_v2(CallContext& call, const cuCtxCreate_v2Request& request) {
  MemoryLedger& ledger = call.worker().parts().memory().charges().ledger();
  if (!ledger.TakeContext(request.device)) return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  CUcontext context = nullptr;
  CUresult result = call.driver().cuCtxCreate_v2(&context, request.flags, request.device);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && AskOthersForRoom(call.worker(), request.device, 0)) {
    result = call.driver().cuCtxCreate_v2(&context, request.flags, request.device);
  }
  if (result != CUDA_SUCCESS) {
    ledger.GiveContext(request.device);
    return call.Finish(result);
  }
  ledger.CountContext(request.device);
  // The driver made it current on this thread; what is current travels with every record instead.
  CUcontext popped = nullptr;
  call.driver().cuCtxPopCurrent_v2(&popped);
  call.worker().ForgetCurrentContext();
  call.worker().done_words().BeginContext(context);
  call.New(request.context, context);
  call.worker().parts().memory().host_mappings().BeginContext();
  call.Finish(result);
}

void Do_cuCtxDestroy_v2(CallContext& call, const cuCtxDestroy_v2Request& request) {
  const auto context = call.Use<CUcontext>(request.context);
  if (!call.ok()) return call.Finish(call.error());
  CUdevice device = CU_DEVICE_INVALID;
  if (call.worker().SetContext(context) == CUDA_SUCCESS) call.driver().cuCtxGetDevice(&device);
  PrepareContextEnd(call.worker(), request.context, context);
  const CUresult result = call.driver().cuCtxDestroy_v2(context);
  if (result == CUDA_SUCCESS) call.worker().parts().memory().charges().ledger().GiveContext(device);
  FinishContextEnd(call.worker(), request.context);
  call.Finish(result);
}

void Do_cuCtxSetLimit(CallContext& call, const cuCtxSetLimitRequest& request) {
  const auto set = [&] { return call.driver().cuCtxSetLimit(request.limit, request.value); };
  LimitCharges& limits = call.worker().parts().memory().charges().limits();
  const CUdevice device = CurrentDevice(call);
  call.Finish(
      WithoutReserves(call, [&] { return limits.Set(call.holder().value(), device, request.limit, request.value, set); }));
}

void Do_cuCtxSynchronize(CallContext& call, const cuCtxSynchronizeRequest&) { SynchronizeContext(call); }

void Do_cuCtxSynchronize_v2(CallContext& call, const cuCtxSynchronize_v2Request& request) {
  if (!request.ctx.is_null()) {
    const auto context = call.Use<CUcontext>(request.ctx);
    if (!call.ok()) return call.Finish(call.error());
    if (const CUresult result = call.worker().SetContext(context); result != CUDA_SUCCESS) return call.Finish(result);
  }
  SynchronizeContext(call);
}

void Do_cuCtxRecordEvent(CallContext& call, const cuCtxRecordEventRequest& request) {
  const auto context = call.Use<CUcontext>(request.hCtx);
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuCtxRecordEvent == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  call.worker().parts().watched_events().BeforeRecord(event);
  call.Finish(call.driver().cuCtxRecordEvent(context, event));
}

}  // namespace tessera
