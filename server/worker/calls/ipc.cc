// cuIpc*: blocks of cuMemAlloc and events of other sessions.

#include <cuda.h>

#include <cstring>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/helper_pool.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/sharing/token_field.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuIpcGetMemHandle(CallContext& call, const cuIpcGetMemHandleRequest& request) {
  ShareToken token;
  cuIpcGetMemHandleReply reply;
  const CUresult result = call.worker().parts().sharing().ShareBlock(Range{request.address, request.bytes}, &token);
  reply.token = token.bytes;
  call.Finish(result, reply);
}

void Do_cuIpcOpenMemHandle_v2(CallContext& call, const cuIpcOpenMemHandle_v2Request& request) {
  ShareToken token;
  if (!ReadToken(request.token, &token)) return call.Malformed();
  Sharing::Block block;
  const CUresult result = call.worker().parts().sharing().OpenBlock(token, call.holder(), &block);
  cuIpcOpenMemHandle_v2Reply reply;
  reply.address = block.range.base;
  reply.bytes = block.range.bytes;
  reply.device = block.device;
  call.Finish(result, reply);
}

void Do_cuIpcCloseMemHandle(CallContext& call, const cuIpcCloseMemHandleRequest& request) {
  SessionMemory& memory = call.worker().parts().memory();
  Sharing& sharing = call.worker().parts().sharing();
  bool last = false;
  const CUresult result = sharing.BeginClose(request.address, &last);
  cuIpcCloseMemHandleReply reply;
  reply.last = last;
  if (last) {
    // Work that uses the block may be on its way: it is unmapped behind it, as freed memory is.
    memory.AfterAllWork([&memory, &sharing, address = request.address](bool idle, CUresult) {
      const auto close = [&sharing, address] { sharing.EndClose(address); };
      if (idle) {
        close();
      } else {
        memory.Postpone(close);
      }
    });
  }
  call.Finish(result, reply);
}

void Do_cuIpcGetEventHandle(CallContext& call, const cuIpcGetEventHandleRequest& request) {
  const auto event = call.Use<CUevent>(request.event);
  if (!call.ok()) return call.Finish(call.error());
  ShareToken token;
  const CUresult result = call.worker().parts().sharing().ShareEvent(event, &token);
  cuIpcGetEventHandleReply reply;
  reply.token = token.bytes;
  call.Finish(result, reply);
}

void Do_cuIpcOpenEventHandle(CallContext& call, const cuIpcOpenEventHandleRequest& request) {
  ShareToken token;
  if (!ReadToken(request.token, &token)) return call.Malformed();
  CUevent event = nullptr;
  const CUresult result = call.worker().parts().sharing().OpenEvent(token, &event);
  if (result == CUDA_SUCCESS) call.New(request.event, event);
  call.Finish(result);
}

}  // namespace tessera
