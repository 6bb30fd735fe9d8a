// Sets: every form is one record, enqueued in the call's stream (the NULL stream for synchronous forms).

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server/set.h"
#include "server/worker/await_turn.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

bool MaySet(CallContext& call, CUstream stream, const Range& extent) {
  SessionMemory& memory = call.worker().parts().memory();
  if (memory.MayCopy(extent.base, extent.bytes)) return true;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  return call.driver().cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS && capture == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
         memory.MayName(extent.base, extent.bytes);
}

template <typename Request>
void Set(CallContext& call, const Request& request) {
  const DriverTable& driver = call.driver();
  const uint64_t element = request.element_bytes;
  if (element != 1 && element != 2 && element != 4) return call.Malformed();
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  uint64_t width_bytes = 0;
  Range extent;
  if (__builtin_mul_overflow(request.width, element, &width_bytes) ||
      !ExtentOf(request.dst, request.pitch, 1, width_bytes, request.height, 1, &extent) || !MaySet(call, stream, extent)) {
    return call.Finish(CUDA_ERROR_INVALID_VALUE);
  }
  AwaitTurn(call, stream, {call.header().call, width_bytes, request.height});
  CUresult result = CUDA_SUCCESS;
  const uint32_t value = request.value;
  if (request.height == 1) {
    if (element == 1) result = driver.cuMemsetD8Async(request.dst, static_cast<unsigned char>(value), request.width, stream);
    if (element == 2) result = driver.cuMemsetD16Async(request.dst, static_cast<unsigned short>(value), request.width, stream);
    if (element == 4) result = driver.cuMemsetD32Async(request.dst, value, request.width, stream);
  } else {
    if (element == 1) {
      result = driver.cuMemsetD2D8Async(request.dst, request.pitch, static_cast<unsigned char>(value), request.width,
                                        request.height, stream);
    }
    if (element == 2) {
      result = driver.cuMemsetD2D16Async(request.dst, request.pitch, static_cast<unsigned short>(value), request.width,
                                         request.height, stream);
    }
    if (element == 4) {
      result = driver.cuMemsetD2D32Async(request.dst, request.pitch, value, request.width, request.height, stream);
    }
  }
  FinishAfter(call, stream, result, 0);
}

}  // namespace

#define TESSERA_SET(name) \
  void Do_##name(CallContext& call, const name##Request& request) { Set(call, request); }

TESSERA_SET(cuMemsetD8_v2)
TESSERA_SET(cuMemsetD8Async)
TESSERA_SET(cuMemsetD16_v2)
TESSERA_SET(cuMemsetD16Async)
TESSERA_SET(cuMemsetD32_v2)
TESSERA_SET(cuMemsetD32Async)
TESSERA_SET(cuMemsetD2D8_v2)
TESSERA_SET(cuMemsetD2D8Async)
TESSERA_SET(cuMemsetD2D16_v2)
TESSERA_SET(cuMemsetD2D16Async)
TESSERA_SET(cuMemsetD2D32_v2)
TESSERA_SET(cuMemsetD2D32Async)

#undef TESSERA_SET

}  // namespace tessera
