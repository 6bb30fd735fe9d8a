// The session's trace, for the client that asked for it.

#include "generated/server_custom.h"
#include "protocol/base/clock.h"
#include "server/worker/call_context.h"
#include "server/worker/trace_log.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr uint64_t kEventsPerReply = 2048;  // 64 KiB: fits a reply record with room to spare

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

}  // namespace tessera
