// Virtual memory management: one physical allocation seen at two addresses, a range of several allocations, access rights,
// and what may not be done.
#include <cuda.h>

#include <vector>

#include "check.h"

namespace {

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

void Allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
  CHECK_DRIVER(cuMemSetAccess(address, bytes, &access, 1));
}

}  // namespace

int main() {
  CHECK_DRIVER(cuInit(0));
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  const CUmemAllocationProp properties = OnDevice();
  size_t granule = 0;
  CHECK_DRIVER(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(granule != 0 && granule % 65536 == 0, true);
  EXPECT_EQ(static_cast<int>(cuMemCreate(nullptr, granule, &properties, 0)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  CUmemGenericAllocationHandle first, second;
  CHECK_DRIVER(cuMemCreate(&first, granule, &properties, 0));
  CHECK_DRIVER(cuMemCreate(&second, granule, &properties, 0));
  CUmemAllocationProp told{};
  CHECK_DRIVER(cuMemGetAllocationPropertiesFromHandle(&told, first));
  EXPECT_EQ(told.location.id == 0 && told.type == properties.type, true);

  // [first, second, first]: what is written at the beginning is read at the end.
  CUdeviceptr range;
  CHECK_DRIVER(cuMemAddressReserve(&range, 3 * granule, 0, 0, 0));
  CHECK_DRIVER(cuMemMap(range, granule, 0, first, 0));
  CHECK_DRIVER(cuMemMap(range + granule, granule, 0, second, 0));
  CHECK_DRIVER(cuMemMap(range + 2 * granule, granule, 0, first, 0));
  EXPECT_EQ(static_cast<int>(cuMemMap(range, granule, 0, second, 0)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  // The range of a mapping is its reservation.
  CUdeviceptr begins = 0;
  size_t bytes = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&begins, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, range + granule + 1));
  CHECK_DRIVER(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range + granule + 1));
  EXPECT_EQ(begins, range);
  EXPECT_EQ(bytes, 3 * granule);
  Allow(range, 3 * granule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  unsigned long long flags = 0;
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK_DRIVER(cuMemGetAccess(&flags, &here, range));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));

  CHECK_DRIVER(cuMemsetD32(range, 0x11111111, granule / 4));
  CHECK_DRIVER(cuMemsetD32(range + granule, 0x22222222, granule / 4));
  CHECK_DRIVER(cuMemsetD32(range + 16, 0x33333333, 1));
  CHECK_DRIVER(cuCtxSynchronize());
  unsigned words[8] = {};
  CHECK_DRIVER(cuMemcpyDtoH(words, range + 2 * granule, sizeof(words)));
  EXPECT_EQ(words[0], 0x11111111u);
  EXPECT_EQ(words[4], 0x33333333u);
  // A copy over the border between two allocations.
  CHECK_DRIVER(cuMemcpyDtoH(words, range + granule - 16, sizeof(words)));
  EXPECT_EQ(words[3], 0x11111111u);
  EXPECT_EQ(words[4], 0x22222222u);

  // What is mapped gives its handle once more: it keeps it alive until it is released as often as it was got.
  CUmemGenericAllocationHandle retained;
  CHECK_DRIVER(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(range + granule)));
  EXPECT_EQ(retained == second, true);
  CHECK_DRIVER(cuMemRelease(second));
  CHECK_DRIVER(cuMemUnmap(range + granule, granule));
  CHECK_DRIVER(cuMemMap(range + granule, granule, 0, retained, 0));
  Allow(range + granule, granule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK_DRIVER(cuMemcpyDtoH(words, range + granule, sizeof(words)));
  EXPECT_EQ(words[0], 0x22222222u);
  CHECK_DRIVER(cuMemRelease(retained));
  EXPECT_EQ(static_cast<int>(cuMemRelease(retained)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  // Also when nobody has it any more.
  CHECK_DRIVER(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(range + granule)));
  CHECK_DRIVER(cuMemUnmap(range + granule, granule));
  CHECK_DRIVER(cuMemMap(range + granule, granule, 0, retained, 0));
  CHECK_DRIVER(cuMemRelease(retained));

  CHECK_DRIVER(cuMemUnmap(range, 3 * granule));
  CHECK_DRIVER(cuMemRelease(first));
  CHECK_DRIVER(cuMemAddressFree(range, 3 * granule));
  std::printf("ok\n");
}
