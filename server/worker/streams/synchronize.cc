#include "server/worker/streams/synchronize.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "server/worker/completion.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/helper_pool.h"
#include "server/worker/object_table.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Makes a blocking call of the driver on a helper thread, with the caller's context current; what kernels printed is sent,
// then `done` is told the result, whatever it is.
template <typename Function>
void RunOnHelper(Worker& worker, Function function, const std::function<void(CUresult)>& done) {
  const CUcontext context = worker.CurrentContext();
  const bool taken = worker.helpers().Run([&worker, context, function, done]() mutable {
    CUresult result = worker.SetContext(context);
    if (result == CUDA_SUCCESS) result = function();
    if (worker.driver_chores().prints()) worker.DrainDeviceOutput();
    done(result);
  });
  if (!taken) done(CUDA_ERROR_OUT_OF_MEMORY);
}

// The same, and answers with the result.
template <typename Function>
void OnHelper(CallContext& call, Function function) {
  RunOnHelper(call.worker(), function, [deferred = call.Defer()](CUresult result) mutable { deferred.Finish(result); });
}

// Some stream that synchronises with the legacy stream may have unfinished work in the current context.
bool BlockingStreamsAreBusy(Worker& worker) {
  const DriverTable& driver = worker.driver();
  const CUcontext context = worker.CurrentContext();
  for (const BusyStreams::Use& use : worker.busy_streams().Unfinished()) {
    CUcontext own = nullptr;
    unsigned flags = 0;
    if (driver.cuStreamGetCtx(use.stream, &own) != CUDA_SUCCESS || own != context) continue;
    // One that is captured does not synchronise with the legacy stream, or this would not be asked; its flags, if asked for,
    // would invalidate the capture (driver 580).
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.cuStreamIsCapturing(use.stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) continue;
    if (driver.cuStreamGetFlags(use.stream, &flags) != CUDA_SUCCESS || (flags & CU_STREAM_NON_BLOCKING) == 0) return true;
  }
  return false;
}

// The answer to one cuCtxSynchronize that waits for several streams.
struct ContextWait {
  ContextWait(Worker& worker, CallContext::Deferred deferred) : worker(worker), deferred(deferred) {}

  void OneDone(CUresult one) {
    int expected = CUDA_SUCCESS;
    if (one != CUDA_SUCCESS) result.compare_exchange_strong(expected, one);
    if (remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const auto final_result = static_cast<CUresult>(result.load());
    if (final_result == CUDA_SUCCESS) worker.busy_streams().Finished(uses);
    deferred.Finish(final_result);
  }

  Worker& worker;
  CallContext::Deferred deferred;
  std::vector<BusyStreams::Use> uses;
  std::atomic<size_t> remaining{1};
  std::atomic<int> result{CUDA_SUCCESS};
};

}  // namespace

void SynchronizeOnHelper(Worker& worker, CUstream stream, const std::function<void(CUresult)>& done) {
  RunOnHelper(
      worker, [&worker, stream] { return worker.driver().cuStreamSynchronize(stream); }, done);
}

void SynchronizeStream(CallContext& call, CUstream stream) {
  Worker& worker = call.worker();
  if (worker.driver_chores().any()) {
    return OnHelper(call, [&worker, stream] { return worker.driver().cuStreamSynchronize(stream); });
  }
  auto deferred = call.Defer();
  const CUresult result =
      worker.completion().WhenDone(stream, [deferred](CUresult gpu_result) mutable { deferred.Finish(gpu_result); });
  if (result != CUDA_SUCCESS) call.Finish(result);
}

void SynchronizeEvent(CallContext& call, CUevent event) {
  Worker& worker = call.worker();
  if (worker.driver_chores().any()) {
    return OnHelper(call, [&worker, event] { return worker.driver().cuEventSynchronize(event); });
  }
  // An event that is done needs no watch.
  const CUresult now = worker.driver().cuEventQuery(event);
  if (now != CUDA_ERROR_NOT_READY) return call.Finish(now);
  auto deferred = call.Defer();
  const CUresult result =
      worker.parts().watched_events().Wait(event, [deferred](CUresult gpu_result) mutable { deferred.Finish(gpu_result); });
  if (result != CUDA_SUCCESS) call.Finish(result);
}

void SynchronizeContext(CallContext& call) {
  Worker& worker = call.worker();
  const DriverTable& driver = worker.driver();
  const CUcontext context = worker.CurrentContext();
  std::vector<BusyStreams::Use> uses;
  // Work of a primary context is also that of its green ones, which only the driver waits for as a whole.
  const HandleId id = worker.objects().HandleOf(HandleKind::kContext, reinterpret_cast<uint64_t>(context));
  const uint64_t orphans = worker.busy_streams().Orphans(context);
  bool blocking = orphans != 0 || worker.driver_chores().any() || !worker.objects().GreensOf(id).empty();
  for (const BusyStreams::Use& use : worker.busy_streams().Unfinished()) {
    CUcontext own = nullptr;
    unsigned flags = 0;
    if (driver.cuStreamGetCtx(use.stream, &own) != CUDA_SUCCESS) {
      worker.busy_streams().Forget(use.stream);  // went with its context
      continue;
    }
    if (own != context) continue;
    if (driver.cuStreamGetFlags(use.stream, &flags) != CUDA_SUCCESS || (flags & CU_STREAM_NON_BLOCKING) == 0) {
      blocking = true;
    }
    uses.push_back(use);
  }
  // An event on the legacy stream, beside busy blocking streams, would make their later work wait for each other's
  // earlier work, which cuCtxSynchronize does not do: a kernel that waits for a later one would hang.
  if (blocking) {
    return OnHelper(call, [&worker, uses = std::move(uses), context, orphans] {
      const CUresult result = worker.driver().cuCtxSynchronize();
      if (result == CUDA_SUCCESS) worker.busy_streams().Finished(uses);
      if (result == CUDA_SUCCESS) worker.busy_streams().OrphansDone(context, orphans);
      return result;
    });
  }
  // The legacy stream is idle more often than not: then one question saves an event, and a second one to wait for.
  const bool legacy_idle = worker.completion().pending() == 0 && driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
  if (legacy_idle && uses.empty()) return call.Finish(CUDA_SUCCESS);
  auto wait = std::make_shared<ContextWait>(worker, call.Defer());
  wait->uses = std::move(uses);
  wait->remaining.store(wait->uses.size() + (legacy_idle ? 1 : 2), std::memory_order_relaxed);  // one for this function
  const auto watch = [&](CUstream stream) {
    const CUresult result = worker.completion().WhenDone(stream, [wait](CUresult gpu_result) { wait->OneDone(gpu_result); });
    if (result != CUDA_SUCCESS) wait->OneDone(result);
  };
  for (const BusyStreams::Use& use : wait->uses) watch(use.stream);
  if (!legacy_idle) watch(CU_STREAM_LEGACY);
  wait->OneDone(CUDA_SUCCESS);
}

void QueryEvent(CallContext& call, CUevent event, uint64_t mark) {
  Worker& worker = call.worker();
  const CUresult now = worker.driver().cuEventQuery(event);
  call.Finish(now);
  if (now != CUDA_ERROR_NOT_READY || mark == 0) return;
  const CUresult watched = worker.parts().watched_events().SendMark(event, mark);
  if (watched != CUDA_SUCCESS) worker.SendNotice(NoticeKind::kCompletion, mark, watched);
}

void QueryStream(CallContext& call, CUstream stream, uint64_t mark) {
  Worker& worker = call.worker();
  CUresult now = worker.driver().cuStreamQuery(stream);
  // A stream that was just waited for is idle.
  if (now == CUDA_ERROR_NOT_READY && worker.completion().Settle()) now = worker.driver().cuStreamQuery(stream);
  call.Finish(now);
  if (now != CUDA_ERROR_NOT_READY || mark == 0) return;
  // As in SynchronizeContext: no event of ours on the legacy stream beside busy blocking streams.
  CUresult watched = CUDA_ERROR_NOT_SUPPORTED;
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (!legacy || !BlockingStreamsAreBusy(worker)) {
    watched = worker.completion().WhenDone(
        stream, [&worker, mark](CUresult gpu_result) { worker.SendNotice(NoticeKind::kCompletion, mark, gpu_result); });
  }
  if (watched != CUDA_SUCCESS) worker.SendNotice(NoticeKind::kCompletion, mark, watched);
}

}  // namespace tessera
