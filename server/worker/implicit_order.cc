#include "server/worker/implicit_order.h"

#include "generated/driver_table.h"
#include "server/worker/done_words.h"

namespace tessera {

CUresult ImplicitOrder::Keep(CUstream stream, uint64_t bytes) {
  if (bytes > kReadInCallBytesMax || !default_stream_used_.load(std::memory_order_relaxed) ||
      !blocking_stream_made_.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  // A captured copy becomes a node, which reads when it runs. What a capture forbids, the copy itself is told. Asked first: other
  // questions would end the capture.
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = driver_.cuStreamIsCapturing(stream, &capture);
  if (asked != CUDA_SUCCESS || capture != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY;
  unsigned flags = CU_STREAM_DEFAULT;
  if (!is_default && driver_.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && (flags & CU_STREAM_NON_BLOCKING) != 0) {
    return CUDA_SUCCESS;
  }
  if (words_.WriteUnread(stream)) return CUDA_SUCCESS;
  return driver_.cuLaunchHostFunc(
      stream, [](void*) {}, nullptr);
}

}  // namespace tessera
