#include "server/worker/memory/array_bytes.h"

#include <algorithm>
#include <bit>

#include "generated/driver_table.h"

namespace tessera {
namespace {

constexpr uint64_t kArrayGranuleBytes = 64 * 1024;
constexpr uint64_t kSharedBytesMax = uint64_t{1} << 20;
constexpr uint64_t kArrayPieceBytes = uint64_t{2} << 20;
constexpr uint64_t kChannelBytesMax = 4;
constexpr unsigned kNoMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

uint64_t ChannelBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    default: return kChannelBytesMax;
  }
}

uint64_t BoundOf(const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels) {
  uint64_t bytes = ChannelBytes(array.Format) * std::max(array.NumChannels, 1u);
  for (const uint64_t extent : {array.Width, std::max<size_t>(array.Height, 1), std::max<size_t>(array.Depth, 1)}) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return UINT64_MAX;
  }
  // Each level of a mipmapped array has half the size of the one before, or more where an extent is already 1.
  if (levels > 1 && __builtin_mul_overflow(bytes, uint64_t{2}, &bytes)) return UINT64_MAX;
  return bytes > UINT64_MAX - kArrayGranuleBytes ? UINT64_MAX
                                                 : (bytes + kArrayGranuleBytes - 1) / kArrayGranuleBytes * kArrayGranuleBytes;
}

}  // namespace

uint64_t TakenByArray(uint64_t needed_bytes, unsigned levels) {
  if (needed_bytes <= kSharedBytesMax) return levels > 1 ? std::bit_ceil(needed_bytes) : needed_bytes;
  if (needed_bytes > UINT64_MAX - kArrayPieceBytes) return UINT64_MAX;
  return (needed_bytes + kArrayPieceBytes - 1) / kArrayPieceBytes * kArrayPieceBytes;
}

uint64_t ArrayBytes(const DriverTable& driver, CUdevice device, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels) {
  if ((array.Flags & kNoMemory) != 0) return 0;
  CUDA_ARRAY3D_DESCRIPTOR twin = array;
  twin.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (levels == 0 && driver.cuArrayGetMemoryRequirements != nullptr) {
    CUarray made = nullptr;
    if (driver.cuArray3DCreate_v2(&made, &twin) == CUDA_SUCCESS) {
      result = driver.cuArrayGetMemoryRequirements(&needs, made, device);
      driver.cuArrayDestroy(made);
    }
  } else if (levels != 0 && driver.cuMipmappedArrayGetMemoryRequirements != nullptr) {
    CUmipmappedArray made = nullptr;
    if (driver.cuMipmappedArrayCreate(&made, &twin, levels) == CUDA_SUCCESS) {
      result = driver.cuMipmappedArrayGetMemoryRequirements(&needs, made, device);
      driver.cuMipmappedArrayDestroy(made);
    }
  }
  return TakenByArray(result == CUDA_SUCCESS && needs.size != 0 ? needs.size : BoundOf(array, levels), levels);
}

}  // namespace tessera
