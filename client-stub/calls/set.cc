// Sets. Device memory is set in stream order and the call returns at once, in the synchronous forms too; pinned host memory
// has been set when a synchronous form returns (CUDA Driver API, "API synchronization behavior", Memset).

#include <cuda.h>

#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/graphs/captured_sets.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_visit.h"
#include "client-stub/transfers/staged_transfer.h"
#include "generated/client/set.h"

namespace tessera {
namespace {

struct Area {
  uint64_t to = 0;
  uint64_t pitch = 0;
  uint64_t width = 0;  // elements
  uint64_t height = 1;
};

void FillRow(std::byte* row, uint64_t elements, uint32_t value, uint32_t element_bytes) {
  for (uint64_t i = 0; i < elements; ++i) std::memcpy(row + i * element_bytes, &value, element_bytes);
}

// Memory that only this process has: it is set here, when the stream gets there.
CUresult SetHere(Call& call, const Area& area, uint32_t value, uint32_t element_bytes, CUstream stream, bool async) {
  const HandleId id = call.UseStream(stream);
  const CUresult result = VisitStream(call, id, [area, value, element_bytes](const GoOn& go_on) {
    for (uint64_t row = 0; row < area.height; ++row) {
      FillRow(reinterpret_cast<std::byte*>(area.to + row * area.pitch), area.width, value, element_bytes);
    }
    go_on();
  });
  return result != CUDA_SUCCESS || async ? result : WaitForStream(call, id);
}

template <typename Request>
CUresult Set(Call& call, const Area& area, uint32_t value, uint32_t element_bytes, CUstream stream, bool async) {
  if (!call.ok()) return call.result();
  Request request;
  request.stream = call.UseStream(stream);
  if (!call.ok() || area.width == 0 || area.height == 0) return call.result();
  uint64_t row_bytes = 0;
  uint64_t bytes = 0;
  if (area.to % element_bytes != 0 || __builtin_mul_overflow(area.width, element_bytes, &row_bytes)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (area.height > 1 && (area.pitch < row_bytes || area.pitch % element_bytes != 0)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (__builtin_mul_overflow(area.height - 1, area.pitch, &bytes) || __builtin_add_overflow(bytes, row_bytes, &bytes)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  ClientMemory& memory = call.session().memory();
  const Place place = CheckMemory(call, area.to, bytes);
  uint64_t to = area.to;
  if (place == Place::kPrivate && !call.capturing()) {
    const Area here{memory.Translate(area.to), area.pitch, area.width, area.height};
    return SetHere(call, here, value, element_bytes, stream, async);
  }
  if (place == Place::kPrivate) {
    if (!ReachForDevice(call, &to)) return call.result();
  } else if (place != Place::kDevice && place != Place::kPinned) {
    if (!call.capturing()) return RefuseMemory(call, area.to, bytes);
    NoteUncheckedSet();
  }
  WorkOnRanges work(call, request.stream, Range{area.to, place == Place::kDevice ? bytes : 0}, Range{});
  if (work.result() != CUDA_SUCCESS) return work.result();
  request.dst = to;
  request.pitch = area.pitch;
  request.value = value;
  request.element_bytes = element_bytes;
  request.width = area.width;
  request.height = area.height;
  const bool on_device = place == Place::kDevice && !memory.allocations().Contains(to);
  return async || on_device ? work.Async(request) : work.Sync(request);
}

}  // namespace

#define TESSERA_SET(bits, type)                                                                                               \
  CUresult Custom_cuMemsetD##bits##_v2(Call& call, CUdeviceptr dstDevice, type value, size_t N) {                             \
    return Set<cuMemsetD##bits##_v2Request>(call, Area{dstDevice, 0, N, 1}, value, sizeof(type), nullptr, false);             \
  }                                                                                                                           \
  CUresult Custom_cuMemsetD##bits##Async(Call& call, CUdeviceptr dstDevice, type value, size_t N, CUstream hStream) {         \
    return Set<cuMemsetD##bits##AsyncRequest>(call, Area{dstDevice, 0, N, 1}, value, sizeof(type), hStream, true);            \
  }                                                                                                                           \
  CUresult Custom_cuMemsetD2D##bits##_v2(Call& call, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,        \
                                         size_t Height) {                                                                     \
    return Set<cuMemsetD2D##bits##_v2Request>(call, Area{dstDevice, dstPitch, Width, Height}, value, sizeof(type), nullptr,   \
                                              false);                                                                         \
  }                                                                                                                           \
  CUresult Custom_cuMemsetD2D##bits##Async(Call& call, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,      \
                                           size_t Height, CUstream hStream) {                                                 \
    return Set<cuMemsetD2D##bits##AsyncRequest>(call, Area{dstDevice, dstPitch, Width, Height}, value, sizeof(type), hStream, \
                                                true);                                                                        \
  }

TESSERA_SET(8, unsigned char)
TESSERA_SET(16, unsigned short)
TESSERA_SET(32, unsigned int)

#undef TESSERA_SET

}  // namespace tessera
