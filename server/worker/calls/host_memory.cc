// Pinned host memory: the client makes the segments and cuts them up, the worker makes them known to the driver.

#include <cuda.h>

#include "generated/messages/service.h"
#include "generated/server/host_memory.h"
#include "generated/server_custom.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/segment.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Tells the program why, when there was no room for its segment.
CUresult Told(CallContext& call, uint32_t segment, CUresult result) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  if (const Status why = call.worker().channel().WhyRefused(segment); !why.ok()) call.worker().WarnProgram(why.message());
  return result;
}

template <typename Request>
CUresult Attach(CallContext& call, const Request& request) {
  return Told(call, request.segment,
              call.worker().parts().memory().host().Attach(call.holder().value(), request.segment,
                                                           Range{request.address, request.segment_bytes}));
}

}  // namespace

void Do_cuMemAllocHost_v2(CallContext& call, const cuMemAllocHost_v2Request& request) { call.Finish(Attach(call, request)); }

void Do_cuMemHostAlloc(CallContext& call, const cuMemHostAllocRequest& request) { call.Finish(Attach(call, request)); }

// On the executor, ahead of the copies that use it. Registering waits for no kernel (measured: driver 580).
void Do_tesseraShadowAttach(CallContext& call, const tesseraShadowAttachRequest& request) {
  const CUresult result = Attach(call, request);
  call.worker().SendNotice(NoticeKind::kCompletion, request.mark, result);
  call.Finish(result);
}

// Where anything runs the driver would wait for it, and keep launches waiting meanwhile (measured: driver 580): a program whose
// kernel waits for it would hang. Nothing can begin while this runs here.
void Do_tesseraHostRelease(CallContext& call, const tesseraHostReleaseRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  if (request.segments.size() > SegmentTable::kSegmentsMax) return call.Malformed();
  const bool idle = memory.AllWorkIsDone();
  for (const uint32_t segment : request.segments) {
    if (idle) memory.host().Detach(segment);  // not there when its context has ended meanwhile
  }
  call.worker().SendNotice(NoticeKind::kCompletion, request.mark, idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
  call.Finish(CUDA_SUCCESS);
}

void Do_tesseraHostMap(CallContext& call, const tesseraHostMapRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  call.Finish(Told(call, request.segment, memory.host_mappings().Map(request.segment, Range{request.address, request.bytes})));
}

void Do_tesseraHostUnmap(CallContext& call, const tesseraHostUnmapRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  // That work failed is not this call's result: it does nothing more. While a stream captures the driver waits itself.
  memory.AfterAllWork([&memory, address = request.address, deferred = call.Defer()](bool, CUresult) mutable {
    deferred.Finish(memory.host_mappings().Unmap(address));
  });
}

void Do_cuMemFreeHost(CallContext& call, const cuMemFreeHostRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  // The reply's field says whether the memory may be used again; the client keeps what is not idle until a later free.
  memory.AfterAllWork([&memory, segment = request.segment, deferred = call.Defer()](bool idle, CUresult result) mutable {
    if (idle && segment != 0) {
      const CUresult detached = memory.host().Detach(segment);
      if (result == CUDA_SUCCESS) result = detached;
    }
    cuMemFreeHostReply reply;
    reply.idle = idle;
    Encoder encoder;
    reply.Encode(encoder);
    deferred.Finish(result, encoder.bytes());
  });
}

}  // namespace tessera
