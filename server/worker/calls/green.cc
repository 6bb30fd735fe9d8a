// Green contexts. Each is entered twice: itself, and the context that stands for it in all other calls.

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/contexts/context_end.h"
#include "server/worker/object_table.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// More parts than any GPU has multiprocessors.
constexpr uint32_t kGroupsMax = 1024;

}  // namespace

void Do_cuGreenCtxCreate(CallContext& call, const cuGreenCtxCreateRequest& request) {
  const DriverTable& driver = call.driver();
  const auto descriptor = call.Use<CUdevResourceDesc>(request.desc);
  call.Use<CUcontext>(request.primary);
  if (!call.ok()) return call.Finish(call.error());
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUresult result = driver.cuGreenCtxCreate(&green, descriptor, request.device, request.flags);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  result = driver.cuCtxFromGreenCtx(&context, green);
  if (result != CUDA_SUCCESS) {
    driver.cuGreenCtxDestroy(green);
    return call.Finish(result);
  }
  call.New(request.green, green);
  if (!call.worker().objects().InsertGreen(request.context, reinterpret_cast<uint64_t>(context), request.primary)) {
    return call.Malformed();
  }
  call.Finish(result);
}

void Do_cuGreenCtxDestroy(CallContext& call, const cuGreenCtxDestroyRequest& request) {
  const auto green = call.Use<CUgreenCtx>(request.green);
  const auto context = call.Use<CUcontext>(request.context);
  if (!call.ok()) return call.Finish(call.error());
  PrepareContextEnd(call.worker(), request.context, context);
  const CUresult result = call.driver().cuGreenCtxDestroy(green);
  FinishContextEnd(call.worker(), request.context);
  call.Free(request.green);
  call.Finish(result);
}

void Do_cuDevSmResourceSplitByCount(CallContext& call, const cuDevSmResourceSplitByCountRequest& request) {
  if (call.driver().cuDevSmResourceSplitByCount == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  unsigned groups = request.wants_result && request.groups > kGroupsMax ? kGroupsMax : request.groups;
  const size_t room = request.wants_result ? groups : 0;
  CUdevResource* parts = call.ScratchArray<CUdevResource>(room == 0 ? 1 : room);
  if (!call.ok()) return call.Finish(call.error());
  cuDevSmResourceSplitByCountReply reply;
  const CUresult result = call.driver().cuDevSmResourceSplitByCount(
      request.wants_result ? parts : nullptr, &groups, &request.input, request.wants_remaining ? &reply.remaining : nullptr,
      request.flags, request.min_count);
  reply.groups = groups;
  if (result == CUDA_SUCCESS && request.wants_result) reply.result.Borrow(parts, groups <= room ? groups : room);
  call.Finish(result, reply);
}

void Do_cuGreenCtxStreamCreate(CallContext& call, const cuGreenCtxStreamCreateRequest& request) {
  const auto green = call.Use<CUgreenCtx>(request.greenCtx);
  if (!call.ok()) return call.Finish(call.error());
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  CUresult result = call.driver().cuGreenCtxStreamCreate(&stream, green, request.flags, request.priority);
  if (result == CUDA_SUCCESS) result = call.driver().cuCtxFromGreenCtx(&context, green);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  ObjectTable& objects = call.worker().objects();
  const HandleId owner = objects.HandleOf(HandleKind::kContext, reinterpret_cast<uint64_t>(context));
  if (!objects.Insert(request.phStream, reinterpret_cast<uint64_t>(stream), owner)) return call.Malformed();
  call.Finish(result, cuGreenCtxStreamCreateReply{});
}

void Do_cuGreenCtxRecordEvent(CallContext& call, const cuGreenCtxRecordEventRequest& request) {
  const auto green = call.Use<CUgreenCtx>(request.hCtx);
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().watched_events().BeforeRecord(event);
  call.Finish(call.driver().cuGreenCtxRecordEvent(green, event));
}

}  // namespace tessera
