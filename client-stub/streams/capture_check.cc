#include "client-stub/streams/capture_check.h"

#include "client-stub/streams/stream_state.h"

namespace tessera {

CUresult CheckCapture(const CallInfo& info, ThreadState& thread) {
  if (info.capture != CallInfo::Capture::kUnsafe || Captures().idle()) return CUDA_SUCCESS;
  return Captures().CheckUnsafe(CallerOf(thread));
}

CUresult CheckStreamUse(BasicCall& call, CUstream stream, bool* capturing) {
  *capturing = false;
  if (Captures().idle()) return CUDA_SUCCESS;
  UsedStream used;
  if (FindStream(call, stream, &used) != CUDA_SUCCESS) return CUDA_SUCCESS;  // Call::UseStream says what is wrong
  return Captures().CheckUse(used.ref, capturing);
}

void NoteCaptureFailure(BasicCall& call, CUstream stream) {
  UsedStream used;
  if (Captures().idle() || FindStream(call, stream, &used) != CUDA_SUCCESS) return;
  Captures().SetUncertain(used.ref);
}

}  // namespace tessera
