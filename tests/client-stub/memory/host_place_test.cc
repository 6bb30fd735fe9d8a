// Memory that a program asks the driver to make on a host would lie on the server's, where the program cannot touch it: no such
// call reaches the server's driver, whatever it could do. Where the two ends share pages such memory is the client's own
// (host_allocations_test.cc, host_pools_test.cc); elsewhere it is refused.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

std::atomic<int> asked;

// A driver that would make memory anywhere.
void MakeAnywhere(DriverTable& driver) {
  driver.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*, unsigned long long) {
    *handle = ++asked;
    return CUDA_SUCCESS;
  };
  driver.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) {
    *pool = reinterpret_cast<CUmemoryPool>(static_cast<uintptr_t>(0x1000 + ++asked));
    return CUDA_SUCCESS;
  };
  driver.cuMemGetDefaultMemPool = driver.cuMemGetMemPool = [](CUmemoryPool* pool, CUmemLocation*, CUmemAllocationType) {
    *pool = reinterpret_cast<CUmemoryPool>(static_cast<uintptr_t>(0x1000 + ++asked));
    return CUDA_SUCCESS;
  };
  driver.cuMemSetMemPool = [](CUmemLocation*, CUmemAllocationType, CUmemoryPool) {
    ++asked;
    return CUDA_SUCCESS;
  };
}

TEST(HostPlaceTest, NoMemoryOfTheServersHost) {
  static auto* const ends = new BothEnds(&MakeAnywhere);
  ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
  CUmemoryPool pool = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  CUmemLocation place{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemPoolProps pool_properties{};
  pool_properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  const bool shared = std::getenv("TESSERA_TEST_CHANNEL") == nullptr;
  for (const CUmemLocationType host :
       {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}) {
    place.type = properties.location.type = pool_properties.location.type = host;
    const CUresult answer = !shared                                          ? CUDA_ERROR_NOT_SUPPORTED
                            : host == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ? CUDA_ERROR_INVALID_VALUE
                                                                             : CUDA_SUCCESS;
    EXPECT_EQ(cuMemCreate(&handle, 2 << 20, &properties, 0), answer) << host;
    EXPECT_EQ(cuMemPoolCreate(&pool, &pool_properties), answer) << host;
    const CUresult own = answer == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED), own) << host;
    EXPECT_EQ(cuMemGetMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED), own) << host;
  }
  EXPECT_EQ(asked, 0);
  place.type = properties.location.type = pool_properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  EXPECT_EQ(cuMemCreate(&handle, 2 << 20, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolCreate(&pool, &pool_properties), CUDA_SUCCESS);
  EXPECT_EQ(asked, 2);
  place.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, pool),
            shared ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace tessera
