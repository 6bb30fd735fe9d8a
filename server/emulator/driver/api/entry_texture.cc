// Texture and surface objects, of arrays and of linear memory.
#include <algorithm>

#include "protocol/base/log.h"
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/texture_object.h"

namespace tessera::emulator {
namespace {

constexpr unsigned kFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
// Elements of a texture of linear memory. Device attribute MAXIMUM_TEXTURE1D_LINEAR_WIDTH of the device that this one is like.
constexpr uint64_t kLinearElementsMax = 1 << 28;

CUresult NotSupported(const char* what) {
  LogWarning("the emulator has no {}", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

Texture::Channel ChannelOf(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32: return Texture::Channel::kSigned;
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT: return Texture::Channel::kFloat;
    default: return Texture::Channel::kUnsigned;
  }
}

CUresult SetFormat(CUarray_format format, unsigned channels, Texture* texture) {
  RETURN_IF(FormatBytes(format) == 0 || (channels != 1 && channels != 2 && channels != 4), CUDA_ERROR_INVALID_VALUE);
  texture->channel = ChannelOf(format);
  texture->channel_bytes = FormatBytes(format);
  texture->channels = channels;
  return CUDA_SUCCESS;
}

CUresult DescribeArray(const Array& array, Texture* texture) {
  const CUDA_ARRAY3D_DESCRIPTOR& descriptor = array.descriptor();
  RETURN_ON_ERROR(SetFormat(descriptor.Format, descriptor.NumChannels, texture));
  texture->base = array.base();
  texture->is_array = true;
  texture->layered = (descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  texture->cube = (descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  texture->width = static_cast<uint32_t>(descriptor.Width);
  texture->height = static_cast<uint32_t>(array.rows());
  texture->depth = static_cast<uint32_t>(array.slices());
  texture->row_bytes = array.row_bytes();
  texture->slice_bytes = array.row_bytes() * array.rows();
  return CUDA_SUCCESS;
}

CUresult DescribeLinear(const CUDA_RESOURCE_DESC& resource, Texture* texture) {
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    const auto& linear = resource.res.linear;
    RETURN_ON_ERROR(SetFormat(linear.format, linear.numChannels, texture));
    const uint64_t elements = linear.sizeInBytes / texture->element_bytes();
    RETURN_IF(linear.devPtr == 0 || elements == 0 || elements > kLinearElementsMax, CUDA_ERROR_INVALID_VALUE);
    texture->base = linear.devPtr;
    texture->width = static_cast<uint32_t>(elements);
    return CUDA_SUCCESS;
  }
  const auto& pitched = resource.res.pitch2D;
  RETURN_ON_ERROR(SetFormat(pitched.format, pitched.numChannels, texture));
  RETURN_IF(pitched.devPtr == 0 || pitched.width == 0 || pitched.height == 0 || pitched.width > 131072 ||
                pitched.height > 65000 || pitched.pitchInBytes < pitched.width * texture->element_bytes(),
            CUDA_ERROR_INVALID_VALUE);
  texture->base = pitched.devPtr;
  texture->width = static_cast<uint32_t>(pitched.width);
  texture->height = static_cast<uint32_t>(pitched.height);
  texture->row_bytes = pitched.pitchInBytes;
  return CUDA_SUCCESS;
}

// cuda.h's order of modes is that of Texture::AddressMode.
CUresult SetSampling(const CUDA_TEXTURE_DESC& sampling, Texture* texture) {
  if ((sampling.flags & CU_TRSF_SRGB) != 0) return NotSupported("sRGB textures");
  RETURN_IF((sampling.flags & ~kFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < 3; ++i) {
    RETURN_IF(sampling.addressMode[i] < CU_TR_ADDRESS_MODE_WRAP || sampling.addressMode[i] > CU_TR_ADDRESS_MODE_BORDER,
              CUDA_ERROR_INVALID_VALUE);
    texture->address[i] = static_cast<Texture::AddressMode>(sampling.addressMode[i]);
  }
  RETURN_IF(sampling.filterMode != CU_TR_FILTER_MODE_POINT && sampling.filterMode != CU_TR_FILTER_MODE_LINEAR,
            CUDA_ERROR_INVALID_VALUE);
  texture->linear_filter = sampling.filterMode == CU_TR_FILTER_MODE_LINEAR;
  texture->normalized_coordinates = (sampling.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  texture->normalized_values = texture->channel != Texture::Channel::kFloat && texture->channel_bytes < 4 &&
                               (sampling.flags & CU_TRSF_READ_AS_INTEGER) == 0;
  RETURN_IF(texture->linear_filter && !texture->gives_floats(), CUDA_ERROR_INVALID_VALUE);
  std::copy(std::begin(sampling.borderColor), std::end(sampling.borderColor), texture->border.begin());
  return CUDA_SUCCESS;
}

CUresult MakeObject(const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* sampling, uint64_t* handle) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(handle == nullptr || resource == nullptr || resource->flags != 0, CUDA_ERROR_INVALID_VALUE);
  auto object = std::make_shared<TextureObject>();
  object->context = context->handle();
  object->is_surface = sampling == nullptr;
  object->resource = *resource;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      object->array = GetDriver().arrays.Find(resource->res.array.hArray);
      RETURN_IF(object->array == nullptr, CUDA_ERROR_INVALID_VALUE);
      RETURN_ON_ERROR(DescribeArray(*object->array, &object->texture));
      break;
    case CU_RESOURCE_TYPE_LINEAR:
    case CU_RESOURCE_TYPE_PITCH2D:
      RETURN_IF(object->is_surface, CUDA_ERROR_INVALID_VALUE);
      RETURN_ON_ERROR(DescribeLinear(*resource, &object->texture));
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return NotSupported("textures of several levels");
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  if (sampling != nullptr) {
    object->sampling = *sampling;
    RETURN_ON_ERROR(SetSampling(*sampling, &object->texture));
  }  // NVIDIA's driver makes surfaces of arrays without SURFACE_LDST, too
  *handle = GetDriver().texture_objects.Add(std::move(object));
  return CUDA_SUCCESS;
}

std::shared_ptr<TextureObject> FindObject(uint64_t handle, bool is_surface) {
  std::shared_ptr<TextureObject> object = GetDriver().texture_objects.Find(handle);
  return object != nullptr && object->is_surface == is_surface ? object : nullptr;
}

CUresult Destroy(uint64_t handle, bool is_surface) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(FindObject(handle, is_surface) == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(context->Synchronize());
  return GetDriver().texture_objects.Remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// One member of the object's description.
template <typename T>
CUresult Get(uint64_t handle, bool is_surface, T* out, T TextureObject::*member) {
  RETURN_ON_ERROR(CheckEntry());
  const auto object = FindObject(handle, is_surface);
  RETURN_IF(out == nullptr || object == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = (*object).*member;
  return CUDA_SUCCESS;
}

bool CopyDescription(uint64_t handle, bool is_surface, Texture* texture) {
  const auto object = FindObject(handle, is_surface);
  if (object == nullptr) return false;
  *texture = object->texture;
  return true;
}

}  // namespace

bool Context::FindTexture(uint64_t object, Texture* texture) { return CopyDescription(object, false, texture); }
bool Context::FindSurface(uint64_t object, Texture* surface) { return CopyDescription(object, true, surface); }

}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc, const CUDA_TEXTURE_DESC* pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pTexDesc == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (pResViewDesc != nullptr && pResViewDesc->format != CU_RES_VIEW_FORMAT_NONE) return NotSupported("views of another format");
  uint64_t handle = 0;
  RETURN_ON_ERROR(MakeObject(pResDesc, pTexDesc, pTexObject != nullptr ? &handle : nullptr));
  *pTexObject = handle;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  RETURN_ON_ERROR(CheckEntry());
  uint64_t handle = 0;
  RETURN_ON_ERROR(MakeObject(pResDesc, nullptr, pSurfObject != nullptr ? &handle : nullptr));
  *pSurfObject = handle;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject) { return Destroy(texObject, false); }
CUresult cuSurfObjectDestroy(CUsurfObject surfObject) { return Destroy(surfObject, true); }
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  return Get(texObject, false, pResDesc, &TextureObject::resource);
}
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  return Get(surfObject, true, pResDesc, &TextureObject::resource);
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  return Get(texObject, false, pTexDesc, &TextureObject::sampling);
}

}  // extern "C"
