// Arrays and mipmapped arrays.
#include <algorithm>
#include <bit>

#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/array.h"
#include "server/emulator/driver/memory/device_memory.h"

namespace tessera::emulator {
namespace {

constexpr unsigned kFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                            CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_COLOR_ATTACHMENT;

CUresult CheckDescriptor(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  RETURN_IF(descriptor.Width == 0 || FormatBytes(descriptor.Format) == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(descriptor.NumChannels != 1 && descriptor.NumChannels != 2 && descriptor.NumChannels != 4, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((descriptor.Flags & ~kFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  const bool layered = (descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const bool cube = (descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  RETURN_IF(!layered && descriptor.Depth != 0 && descriptor.Height == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(cube && (descriptor.Width != descriptor.Height || descriptor.Depth == 0 || descriptor.Depth % 6 != 0 ||
                     (!layered && descriptor.Depth != 6)),
            CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(descriptor.Width > 131072 || descriptor.Height > 65536 || descriptor.Depth > 16384, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

uint64_t StorageBytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return descriptor.Width * FormatBytes(descriptor.Format) * descriptor.NumChannels * std::max<uint64_t>(descriptor.Height, 1) *
         std::max<uint64_t>(descriptor.Depth, 1);
}

CUresult Create(const ContextPtr& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, bool owner, uint64_t* handle) {
  const uint64_t bytes = RoundUp(StorageBytes(descriptor), kPageBytes);
  RETURN_IF(!context->device().Charge(bytes), CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t base = MemoryTable::MapPages(bytes, true);
  if (base == 0) {
    context->device().Discharge(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = GetDriver().arrays.Add(std::make_shared<Array>(context, descriptor, base, bytes, owner));
  return CUDA_SUCCESS;
}

}  // namespace

unsigned FormatBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

Array::~Array() {
  GetDriver().memory.RetirePages(base_, size_bytes_);
  device_->Discharge(size_bytes_);
}

MipmappedArray::~MipmappedArray() {
  for (uint64_t level : levels_) GetDriver().arrays.Remove(level);
}

}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(pHandle == nullptr || pAllocateArray == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_ON_ERROR(CheckDescriptor(*pAllocateArray));
  uint64_t handle = 0;
  RETURN_ON_ERROR(Create(context, *pAllocateArray, true, &handle));
  *pHandle = reinterpret_cast<CUarray>(handle);
  return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pAllocateArray == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_ARRAY3D_DESCRIPTOR descriptor{pAllocateArray->Width,  pAllocateArray->Height,      0,
                                           pAllocateArray->Format, pAllocateArray->NumChannels, 0};
  return cuArray3DCreate_v2(pHandle, &descriptor);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const auto array = GetDriver().arrays.Find(hArray);
  RETURN_IF(array == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_IF(pArrayDescriptor == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pArrayDescriptor = array->descriptor();
  return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY3D_DESCRIPTOR whole;
  RETURN_ON_ERROR(cuArray3DGetDescriptor_v2(&whole, hArray));
  RETURN_IF(pArrayDescriptor == nullptr || whole.Depth != 0, CUDA_ERROR_INVALID_VALUE);
  *pArrayDescriptor = {whole.Width, whole.Height, whole.Format, whole.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUarray array, CUdevice device) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(GetDriver().device(device) == nullptr, CUDA_ERROR_INVALID_DEVICE);
  const auto object = GetDriver().arrays.Find(array);
  RETURN_IF(memoryRequirements == nullptr || object == nullptr, CUDA_ERROR_INVALID_VALUE);
  *memoryRequirements = {};
  memoryRequirements->size = object->size_bytes();
  memoryRequirements->alignment = kPageBytes;
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  const auto array = GetDriver().arrays.Find(hArray);
  RETURN_IF(array == nullptr || !array->owner(), CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(context->Synchronize());
  return GetDriver().arrays.Remove(hArray) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(pHandle == nullptr || pMipmappedArrayDesc == nullptr || numMipmapLevels == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckUnsafeCall());
  CUDA_ARRAY3D_DESCRIPTOR level = *pMipmappedArrayDesc;
  RETURN_ON_ERROR(CheckDescriptor(level));
  const bool layered = (level.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const uint64_t longest = std::max({level.Width, level.Height, layered ? size_t{0} : level.Depth});
  const unsigned count = std::min<unsigned>(numMipmapLevels, static_cast<unsigned>(std::bit_width(longest)));
  std::vector<uint64_t> levels;
  uint64_t total = 0;
  for (unsigned i = 0; i < count; ++i) {
    uint64_t handle = 0;
    if (CUresult result = Create(context, level, false, &handle); result != CUDA_SUCCESS) {
      for (uint64_t made : levels) GetDriver().arrays.Remove(made);
      return result;
    }
    levels.push_back(handle);
    total += RoundUp(StorageBytes(level), kPageBytes);
    level.Width = std::max<size_t>(level.Width / 2, 1);
    if (level.Height != 0) level.Height = std::max<size_t>(level.Height / 2, 1);
    if (level.Depth != 0 && !layered) level.Depth = std::max<size_t>(level.Depth / 2, 1);
  }
  *pHandle = reinterpret_cast<CUmipmappedArray>(
      GetDriver().mipmapped_arrays.Add(std::make_shared<MipmappedArray>(context, std::move(levels), total)));
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const auto array = GetDriver().mipmapped_arrays.Find(hMipmappedArray);
  RETURN_IF(array == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_IF(pLevelArray == nullptr || level >= array->levels().size(), CUDA_ERROR_INVALID_VALUE);
  *pLevelArray = reinterpret_cast<CUarray>(array->levels()[level]);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUmipmappedArray mipmap,
                                               CUdevice device) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(GetDriver().device(device) == nullptr, CUDA_ERROR_INVALID_DEVICE);
  const auto object = GetDriver().mipmapped_arrays.Find(mipmap);
  RETURN_IF(memoryRequirements == nullptr || object == nullptr, CUDA_ERROR_INVALID_VALUE);
  *memoryRequirements = {};
  memoryRequirements->size = object->size_bytes();
  memoryRequirements->alignment = kPageBytes;
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(GetDriver().mipmapped_arrays.Find(hMipmappedArray) == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(context->Synchronize());
  return GetDriver().mipmapped_arrays.Remove(hMipmappedArray) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // extern "C"
