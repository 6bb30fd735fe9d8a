#include "client-stub/transfers/box_ends.h"

#include <cstddef>

#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"

namespace tessera {
namespace {

// One end of the copy, wherever it lies.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t x, y, z;
  uint64_t pitch, rows;
};

End FromOf(const CUDA_MEMCPY3D& box) {
  return {box.srcMemoryType, box.srcHost, box.srcDevice, box.srcArray, box.srcXInBytes,
          box.srcY,          box.srcZ,    box.srcPitch,  box.srcHeight};
}

End ToOf(const CUDA_MEMCPY3D& box) {
  return {box.dstMemoryType, box.dstHost, box.dstDevice, box.dstArray, box.dstXInBytes,
          box.dstY,          box.dstZ,    box.dstPitch,  box.dstHeight};
}

bool Resolve(Call& call, const End& end, const CUDA_MEMCPY3D& box, bool check_rows, ResolvedEnd* out) {
  const auto invalid = [&] {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  };
  out->x = end.x;
  out->y = end.y;
  out->z = end.z;
  switch (end.type) {
    case CU_MEMORYTYPE_ARRAY: out->array = call.Use(HandleKind::kArray, end.array); return call.ok();
    case CU_MEMORYTYPE_HOST: out->base = reinterpret_cast<uint64_t>(end.host); break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: out->base = end.device; break;
    default: return invalid();
  }
  uint64_t row_end = 0;
  uint64_t slice_end = 0;
  if (out->base == 0 || __builtin_add_overflow(end.x, box.WidthInBytes, &row_end) ||
      __builtin_add_overflow(end.y, box.Height, &slice_end)) {
    return invalid();
  }
  out->pitch = end.pitch == 0 ? row_end : end.pitch;
  out->rows = end.rows == 0 || !check_rows ? slice_end : end.rows;
  if (out->pitch < row_end || out->rows < slice_end) return invalid();
  uint64_t first = 0;
  uint64_t last = 0;
  if (__builtin_mul_overflow(end.z, out->rows, &first) || __builtin_add_overflow(first, end.y, &first) ||
      __builtin_mul_overflow(first, out->pitch, &first) || __builtin_add_overflow(first, end.x, &first) ||
      __builtin_mul_overflow(box.Depth - 1, out->rows, &last) || __builtin_add_overflow(last, box.Height - 1, &last) ||
      __builtin_mul_overflow(last, out->pitch, &last) || __builtin_add_overflow(last, box.WidthInBytes, &last) ||
      __builtin_add_overflow(first, out->base, &first) || first > UINT64_MAX - last) {
    return invalid();
  }
  out->extent = Range{first, last};
  const uint64_t translated = call.session().memory().Translate(first);
  out->base += translated - first;
  out->extent.base = translated;
  out->place = CheckMemory(call, translated, last);
  if (out->place == Place::kInvalid) return invalid();
  if (end.type == CU_MEMORYTYPE_DEVICE && out->place == Place::kPageable) return invalid();
  return true;
}

}  // namespace

HostRows RowsOf(const ResolvedEnd& end, const SubBox& sub) {
  const uint64_t row = (end.z + sub.z) * end.rows + end.y + sub.y;
  return HostRows{reinterpret_cast<std::byte*>(end.base + row * end.pitch + end.x + sub.x),
                  end.pitch,
                  end.pitch * end.rows,
                  sub.width,
                  sub.height,
                  sub.depth};
}

bool ResolveEnds(Call& call, const CUDA_MEMCPY3D& box, bool check_rows, ResolvedEnd* from, ResolvedEnd* to) {
  return Resolve(call, FromOf(box), box, check_rows, from) && Resolve(call, ToOf(box), box, check_rows, to);
}

bool FindEnds(Call& call, const CUDA_MEMCPY3D& box, BoxEnds* ends) {
  if (box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0) return true;
  ResolvedEnd from, to;
  if (!ResolveEnds(call, box, true, &from, &to)) return false;
  const SubBox whole{0, 0, 0, box.WidthInBytes, box.Height, box.Depth};
  ends->from_private = from.ordinary();
  ends->to_private = to.ordinary();
  ends->pageable = (ends->from_private && from.place == Place::kPageable) || (ends->to_private && to.place == Place::kPageable);
  if (ends->from_private) ends->from = RowsOf(from, whole);
  if (ends->to_private) ends->to = RowsOf(to, whole);
  ends->from_base = from.base;
  ends->to_base = to.base;
  return true;
}

CUDA_MEMCPY3D BoxOf(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = copy.srcXInBytes;
  box.srcY = copy.srcY;
  box.srcMemoryType = copy.srcMemoryType;
  box.srcHost = copy.srcHost;
  box.srcDevice = copy.srcDevice;
  box.srcArray = copy.srcArray;
  box.srcPitch = copy.srcPitch;
  box.dstXInBytes = copy.dstXInBytes;
  box.dstY = copy.dstY;
  box.dstMemoryType = copy.dstMemoryType;
  box.dstHost = copy.dstHost;
  box.dstDevice = copy.dstDevice;
  box.dstArray = copy.dstArray;
  box.dstPitch = copy.dstPitch;
  box.WidthInBytes = copy.WidthInBytes;
  box.Height = copy.Height;
  box.Depth = 1;
  return box;
}

}  // namespace tessera
