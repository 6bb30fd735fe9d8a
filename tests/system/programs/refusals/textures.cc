// Textures, surfaces, sparse arrays and tensor maps.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;

CUresult Texture(const CUDA_RESOURCE_DESC& resource) {
  CUDA_TEXTURE_DESC texture{};
  CUtexObject object;
  const CUresult result = cuTexObjectCreate(&object, &resource, &texture, nullptr);
  if (result == CUDA_SUCCESS) cuTexObjectDestroy(object);
  return result;
}

CUDA_RESOURCE_DESC Linear(CUdeviceptr address, size_t bytes = 64) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {address, CU_AD_FORMAT_UNSIGNED_INT8, 1, bytes};
  return resource;
}

CUDA_RESOURCE_DESC Pitched(CUdeviceptr address) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D = {address, CU_AD_FORMAT_UNSIGNED_INT8, 1, 32, 2, 512};
  return resource;
}

CUDA_RESOURCE_DESC Of(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

CUresult Surface(const CUDA_RESOURCE_DESC& resource) {
  CUsurfObject object;
  const CUresult result = cuSurfObjectCreate(&object, &resource);
  if (result == CUDA_SUCCESS) cuSurfObjectDestroy(object);
  return result;
}

CUresult Tiled(CUdeviceptr address) {
  alignas(64) CUtensorMap map;
  const cuuint64_t dims[] = {16, 16}, strides[] = {16};
  const cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
  return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, reinterpret_cast<void*>(address), dims, strides, box,
                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

const Row kRows[] = {
    {"cuTexObjectCreate: ordinary memory", "calls/texture.cc", CUDA_SUCCESS, [] { return Texture(Linear(Pages().address())); }},
    {"cuTexObjectCreate: nowhere", "calls/texture.cc", CUDA_SUCCESS, [] { return Texture(Linear(kNowhere)); }},
    {"cuTexObjectCreate: freed memory", "calls/texture.cc", CUDA_SUCCESS, [] { return Texture(Linear(Gone<Block>())); }},
    {"cuTexObjectCreate: beyond the end of a block", "calls/texture.cc", CUDA_SUCCESS,
     [] { return Texture(Linear(Block(64), 128)); }},
    {"cuTexObjectCreate: far beyond the end of a block", "calls/texture.cc", CUDA_SUCCESS,
     [] {
       Block b(64);
       return Texture(Linear(b, size_t{64} << 20));
     }},
    {"cuTexObjectCreate: managed memory", "calls/texture.cc", CUDA_SUCCESS, [] { return Texture(Linear(Managed())); }},
    {"cuTexObjectCreate: pinned memory", "calls/texture.cc", CUDA_SUCCESS, [] { return Texture(Linear(Pinned().address())); }},
    {"cuTexObjectCreate: registered memory", "calls/texture.cc", CUDA_SUCCESS,
     [] { return Texture(Linear(Registered().address())); }},
    {"cuTexObjectCreate: ordinary memory with a pitch", "calls/texture.cc", CUDA_SUCCESS,
     [] { return Texture(Pitched(Pages().address())); }},
    {"cuTexObjectCreate: destroyed array", "call/call.cc", kInvalid, [] { return Texture(Of(Gone<Array>())); }, kDangerous},
    {"cuTexObjectCreate: null mipmapped array", "calls/texture.cc", kInvalid,
     [] {
       CUDA_RESOURCE_DESC r{};
       r.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
       return Texture(r);
     }},
    {"cuTexObjectCreate: null address", "calls/texture.cc", kInvalid, [] { return Texture(Linear(0)); }},
    {"cuTexObjectCreate: managed memory that was freed", "calls/texture.cc", CUDA_SUCCESS,
     [] { return Texture(Linear(Gone<Managed>())); }},
    {"cuTexObjectCreate: address that is not a multiple of 512", "server", kInvalid,
     [] {
       Block b;
       return Texture(Linear(b + 4));
     },
     kNeedsGpu},
    {"cuSurfObjectCreate: null array", "calls/texture.cc", kInvalid, [] { return Surface(Of(nullptr)); }},
    {"cuTexObjectCreate: null array", "call/call.cc", kInvalid, [] { return Texture(Of(nullptr)); }},
    {"cuTexObjectCreate: unknown kind of resource", "calls/texture.cc", kInvalid,
     [] {
       Block b;
       auto r = Linear(b);
       r.resType = static_cast<CUresourcetype>(77);
       return Texture(r);
     }},
    {"cuSurfObjectCreate: linear memory", "calls/texture.cc", kInvalid, [] { return Surface(Linear(Block())); }},
    {"cuSurfObjectCreate: array without SURFACE_LDST", "calls/texture.cc", CUDA_SUCCESS, [] { return Surface(Of(Array())); }},
    {"cuArrayDestroy: a second time", "call/call.cc", kHandle, [] { return cuArrayDestroy(Gone<Array>()); }, kDangerous},
    {"cuArrayGetDescriptor: null", "call/call.cc", kHandle,
     [] { return cuArrayGetDescriptor(Out<CUDA_ARRAY_DESCRIPTOR>(), nullptr); }},
    {"cuMemMapArrayAsync: array that is not sparse", "calls/array_map.cc", kInvalid,
     [] {
       Array a;
       Physical p;
       Stream s;
       CUarrayMapInfo info{};
       info.resourceType = CU_RESOURCE_TYPE_ARRAY;
       info.resource.array = a;
       info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
       info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
       info.memHandle.memHandle = p;
       info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
       info.deviceBitMask = 1;
       return cuMemMapArrayAsync(&info, 1, s);
     },
     kNeedsGpu},
    {"cuTensorMapEncodeTiled: ordinary memory", "calls/tensor_map.cc", CUDA_SUCCESS, [] { return Tiled(Pages().address()); },
     kNeedsGpu},
    {"cuTensorMapEncodeTiled: address that is not a multiple of 16", "calls/tensor_map.cc", kInvalid,
     [] { return Tiled(Block() + 8); }, kNeedsGpu},
};

}  // namespace

std::span<const Row> TextureRows() { return kRows; }

}  // namespace refusals
