// Sparse arrays: memory of a tile pool mapped behind single tiles of an array, and taken away again. The emulated GPU has
// none; the program says so and ends.
#include <cuda.h>

#include <vector>

#include "check.h"

namespace {

constexpr size_t kWidth = 1024;

void CopyLine(CUarray array, size_t x_bytes, unsigned y, void* to, const void* from, size_t bytes) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = to != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  copy.dstMemoryType = to != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  (to != nullptr ? copy.srcArray : copy.dstArray) = array;
  (to != nullptr ? copy.srcXInBytes : copy.dstXInBytes) = x_bytes;
  (to != nullptr ? copy.srcY : copy.dstY) = y;
  copy.srcHost = from;
  copy.dstHost = to;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  CHECK_DRIVER(cuMemcpy2D(&copy));
}

}  // namespace

int main() {
  CHECK_DRIVER(cuInit(0));
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  int supported = 0;
  CHECK_DRIVER(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0));
  if (supported == 0) {
    std::printf("no sparse arrays on this device\nok\n");
    return 0;
  }
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = descriptor.Height = kWidth;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  descriptor.NumChannels = 1;
  descriptor.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array;
  CHECK_DRIVER(cuArray3DCreate(&array, &descriptor));
  CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
  CHECK_DRIVER(cuArrayGetSparseProperties(&sparse, array));
  std::printf("tiles of %u x %u x %u\n", sparse.tileExtent.width, sparse.tileExtent.height, sparse.tileExtent.depth);

  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  size_t granularity = 0;
  CHECK_DRIVER(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle pool;
  CHECK_DRIVER(cuMemCreate(&pool, granularity, &properties, 0));

  // The second tile of the first row.
  CUarrayMapInfo map{};
  map.resourceType = CU_RESOURCE_TYPE_ARRAY;
  map.resource.array = array;
  map.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  map.subresource.sparseLevel.offsetX = sparse.tileExtent.width;
  map.subresource.sparseLevel.extentWidth = sparse.tileExtent.width;
  map.subresource.sparseLevel.extentHeight = sparse.tileExtent.height;
  map.subresource.sparseLevel.extentDepth = 1;
  map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  map.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  map.memHandle.memHandle = pool;
  map.deviceBitMask = 1;
  EXPECT_EQ(static_cast<int>(cuMemMapArrayAsync(&map, 0, nullptr)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuMemMapArrayAsync(&map, 1, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  std::vector<unsigned> line(sparse.tileExtent.width), back(sparse.tileExtent.width);
  for (size_t i = 0; i < line.size(); ++i) line[i] = static_cast<unsigned>(5 * i + 1);
  const size_t x_bytes = sparse.tileExtent.width * sizeof(unsigned), bytes = line.size() * sizeof(unsigned);
  CopyLine(array, x_bytes, 3, nullptr, line.data(), bytes);
  CopyLine(array, x_bytes, 3, back.data(), nullptr, bytes);
  EXPECT_EQ(back == line, true);

  map.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  map.memHandle.memHandle = 0;
  CHECK_DRIVER(cuMemMapArrayAsync(&map, 1, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuMemRelease(pool));
  CHECK_DRIVER(cuArrayDestroy(array));
  std::printf("ok\n");
}
