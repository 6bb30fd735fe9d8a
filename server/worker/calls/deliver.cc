// Small copies from device memory to memory that only the client has (memory/worker_deliveries.h).

#include "generated/server_custom.h"
#include "protocol/channel/channel.h"
#include "protocol/memory/delivery.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_tesseraDeliver(CallContext& call, const tesseraDeliverRequest& request) {
  Worker& worker = call.worker();
  SessionMemory& memory = worker.parts().memory();
  const uint64_t bytes = request.src_bytes;
  const bool asks = request.delivery == 0 && call.wants_reply();
  if (!worker.channel().mirrored() || asks != (bytes == 0) || bytes > kDeliveryBytesMax ||
      bytes > worker.channel().replies_out().record_bytes_max() - sizeof(ReplyHeader)) {
    return call.Malformed();
  }
  const CUstream stream = call.UseStream(request.stream);
  if (asks) return call.Finish(call.ok() ? memory.deliveries().Prepare(call) : call.error());
  if (!call.ok()) return memory.deliveries().Refuse(call, request.delivery, call.error());
  if (!memory.MayCopy(request.src, bytes)) return memory.deliveries().Refuse(call, request.delivery, CUDA_ERROR_INVALID_VALUE);
  worker.gate().CountBytesFrom(bytes);
  memory.deliveries().Start(call, request.stream, stream, request.delivery, request.src, bytes);
}

}  // namespace tessera
