// Memory sets in all forms.
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/copy.h"

using namespace tessera::emulator;

namespace {

CUresult SetAsync(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                  CUstream handle) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  std::shared_ptr<SetCommand> command;
  RETURN_ON_ERROR(SetCommand::Make({dst, pitch, value, element_bytes, width, height}, !IsCapturing(*stream), &command));
  return Enqueue(context, stream, command);
}

CUresult Set(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(CU_STREAM_LEGACY, &context, &stream));
  std::shared_ptr<SetCommand> command;
  RETURN_ON_ERROR(SetCommand::Make({dst, pitch, value, element_bytes, width, height}, true, &command));
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  RETURN_ON_ERROR(CheckUnsafeCall());
  const FencePtr fence = context->Submit(stream, command);
  return command->to_host() ? context->WaitFor(fence) : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n) { return Set(dst, 0, value, 1, n, 1); }
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n) { return Set(dst, 0, value, 2, n, 1); }
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n) { return Set(dst, 0, value, 4, n, 1); }
CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height) {
  return Set(dst, pitch, value, 1, width, height);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height) {
  return Set(dst, pitch, value, 2, width, height);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height) {
  return Set(dst, pitch, value, 4, width, height);
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  return SetAsync(dst, 0, value, 1, n, 1, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream) {
  return SetAsync(dst, 0, value, 2, n, 1, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream) {
  return SetAsync(dst, 0, value, 4, n, 1, stream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream) {
  return SetAsync(dst, pitch, value, 1, width, height, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream) {
  return SetAsync(dst, pitch, value, 2, width, height, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream) {
  return SetAsync(dst, pitch, value, 4, width, height, stream);
}

}  // extern "C"
