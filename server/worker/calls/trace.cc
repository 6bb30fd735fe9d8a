// The session's trace, for the client that asked for it.

#include <string_view>
#include <vector>

#include "generated/server_custom.h"
#include "protocol/base/clock.h"
#include "server/worker/call_context.h"
#include "server/worker/gpu_times.h"
#include "server/worker/trace_log.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr uint64_t kEventsPerReply = 2048;  // 64 KiB: fits a reply record with room to spare
constexpr size_t kNameBytesPerReply = 64 * 1024;

}  // namespace

void Do_tesseraTraceStart(CallContext& call, const tesseraTraceStartRequest&) {
  call.worker().trace().Start();
  call.Finish(CUDA_SUCCESS);
}

void Do_tesseraTraceRead(CallContext& call, const tesseraTraceReadRequest& request) {
  if (request.count > 0) call.worker().trace().Stop();  // reading is no part of it
  const std::vector<TraceEvent> events = call.worker().trace().Read(request.first, std::min(request.count, kEventsPerReply));
  tesseraTraceReadReply reply;
  reply.now_ns = MonotonicNs();
  reply.events = std::as_bytes(std::span(events));
  call.Finish(CUDA_SUCCESS, reply);
}

void Do_tesseraTraceWork(CallContext& call, const tesseraTraceWorkRequest& request) {
  GpuTimes& times = call.worker().gpu_times();
  const std::vector<TraceWork> work = times.Read(request.first, std::min(request.count, kEventsPerReply));
  tesseraTraceWorkReply reply;
  reply.work = std::as_bytes(std::span(work));
  reply.names = times.Names(request.first_name, kNameBytesPerReply);
  call.Finish(CUDA_SUCCESS, reply);
}

}  // namespace tessera
