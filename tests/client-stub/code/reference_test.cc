// Texture references, memory behind sparse arrays, and code for both processors, with both ends in one process. The emulator
// has none of them, so its functions are replaced by ones that note what reaches them: objects of the driver's, never handles.
#include <cuda.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/code/nothing_ptx.h"

namespace tessera {
namespace {

// What the replaced functions keep. One thread uses them at a time: every call here waits for its reply.
struct Seen {
  CUarray array = nullptr;
  CUdeviceptr address = 0;
  std::vector<CUarrayMapInfo> maps;
  CUresult unified = CUDA_SUCCESS;
};
Seen seen;
int image_object, canvas_object;
const auto kImage = reinterpret_cast<CUtexref>(&image_object);
const auto kCanvas = reinterpret_cast<CUsurfref>(&canvas_object);

void Replace(DriverTable& driver) {
  driver.cuModuleGetTexRef = [](CUtexref* reference, CUmodule, const char* name) {
    if (std::string(name) != "image") return CUDA_ERROR_NOT_FOUND;
    *reference = kImage;
    return CUDA_SUCCESS;
  };
  driver.cuModuleGetSurfRef = [](CUsurfref* reference, CUmodule, const char*) {
    *reference = kCanvas;
    return CUDA_SUCCESS;
  };
  driver.cuTexRefSetArray = [](CUtexref reference, CUarray array, unsigned) {
    seen.array = array;
    return reference == kImage ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  driver.cuTexRefGetArray = [](CUarray* array, CUtexref reference) {
    *array = seen.array;
    return reference == kImage ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  driver.cuTexRefSetAddress_v2 = [](size_t* offset, CUtexref, CUdeviceptr address, size_t) {
    seen.address = address;
    if (offset != nullptr) *offset = 12;
    return CUDA_SUCCESS;
  };
  driver.cuTexRefSetFlags = [](CUtexref reference, unsigned) { return reference == kImage ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; };
  driver.cuTexRefGetFormat = [](CUarray_format* format, int* channels, CUtexref) {
    if (format != nullptr) *format = CU_AD_FORMAT_HALF;
    if (channels != nullptr) *channels = 2;
    return CUDA_SUCCESS;
  };
  driver.cuSurfRefSetArray = [](CUsurfref reference, CUarray array, unsigned) {
    seen.array = array;
    return reference == kCanvas ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  driver.cuMemMapArrayAsync = [](CUarrayMapInfo* maps, unsigned count, CUstream) {
    seen.maps.assign(maps, maps + count);
    return CUDA_SUCCESS;
  };
  driver.cuLibraryGetUnifiedFunction = [](void** function, CUlibrary, const char*) {
    *function = &seen;
    return seen.unified;
  };
}

class ReferenceTest : public testing::Test {
 protected:
  void SetUp() override {
    static auto* const ends = new BothEnds(&Replace);
    ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
    seen = Seen();
    ASSERT_EQ(cuModuleLoadData(&module_, kNothingPtx), CUDA_SUCCESS);
    CUDA_ARRAY_DESCRIPTOR descriptor{16, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    ASSERT_EQ(cuArrayCreate_v2(&array_, &descriptor), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (module_ != nullptr) {
      EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuArrayDestroy(array_), CUDA_SUCCESS);
  }
  CUmodule module_ = nullptr;
  CUarray array_ = nullptr;
};

TEST_F(ReferenceTest, OfOneNameHasOneHandle) {
  CUtexref image = nullptr, again = nullptr, none = nullptr;
  ASSERT_EQ(cuModuleGetTexRef(&image, module_, "image"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetTexRef(&again, module_, "image"), CUDA_SUCCESS);
  EXPECT_EQ(image, again);
  EXPECT_NE(image, kImage);
  EXPECT_EQ(cuModuleGetTexRef(&none, module_, "other"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(cuTexRefSetFlags(image, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuTexRefSetFlags(nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuTexRefSetFlags(reinterpret_cast<CUtexref>(module_), 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ReferenceTest, EndsWithItsModule) {
  CUtexref image = nullptr;
  ASSERT_EQ(cuModuleGetTexRef(&image, module_, "image"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
  module_ = nullptr;
  EXPECT_EQ(cuTexRefSetFlags(image, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ReferenceTest, ArraysAreTheDriversThereAndHandlesHere) {
  CUtexref image = nullptr;
  CUsurfref canvas = nullptr;
  CUarray got = nullptr;
  ASSERT_EQ(cuModuleGetTexRef(&image, module_, "image"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetSurfRef(&canvas, module_, "canvas"), CUDA_SUCCESS);
  EXPECT_EQ(cuTexRefSetArray(image, array_, CU_TRSA_OVERRIDE_FORMAT), CUDA_SUCCESS);
  EXPECT_NE(seen.array, nullptr);
  EXPECT_NE(seen.array, array_);
  EXPECT_EQ(cuTexRefGetArray(&got, image), CUDA_SUCCESS);
  EXPECT_EQ(got, array_);
  seen.array = nullptr;
  EXPECT_EQ(cuSurfRefSetArray(canvas, array_, 0), CUDA_SUCCESS);
  EXPECT_NE(seen.array, nullptr);
  EXPECT_EQ(cuTexRefSetArray(image, nullptr, CU_TRSA_OVERRIDE_FORMAT), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ReferenceTest, AddressesOfTheSessionAlone) {
  CUtexref image = nullptr;
  CUdeviceptr memory = 0;
  size_t offset = 0;
  ASSERT_EQ(cuModuleGetTexRef(&image, module_, "image"), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuTexRefSetAddress_v2(&offset, image, memory, 4096), CUDA_SUCCESS);
  EXPECT_EQ(offset, 12u);
  EXPECT_EQ(seen.address, memory);
  EXPECT_EQ(cuTexRefSetAddress_v2(&offset, image, reinterpret_cast<CUdeviceptr>(&seen), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(seen.address, memory);
  EXPECT_EQ(cuTexRefSetAddress_v2(nullptr, image, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(seen.address, 0u);
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 0;
  EXPECT_EQ(cuTexRefGetFormat(&format, nullptr, image), CUDA_SUCCESS);
  EXPECT_EQ(format, CU_AD_FORMAT_HALF);
  EXPECT_EQ(cuTexRefGetFormat(nullptr, &channels, image), CUDA_SUCCESS);
  EXPECT_EQ(channels, 2);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
}

TEST_F(ReferenceTest, TilesAreMappedWithTheDriversObjects) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle pool = 0;
  ASSERT_EQ(cuMemCreate(&pool, 2 << 20, &properties, 0), CUDA_SUCCESS);
  std::vector<CUarrayMapInfo> maps(2);
  for (CUarrayMapInfo& map : maps) {
    map.resourceType = CU_RESOURCE_TYPE_ARRAY;
    map.resource.array = array_;
    map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    map.memHandle.memHandle = pool;
    map.offset = 65536;
  }
  maps[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  maps[1].memHandle.memHandle = 0;
  ASSERT_EQ(cuMemMapArrayAsync(maps.data(), 2, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(seen.maps.size(), 2u);
  EXPECT_NE(seen.maps[0].resource.array, array_);
  EXPECT_EQ(seen.maps[0].resource.array, seen.maps[1].resource.array);
  EXPECT_NE(seen.maps[0].memHandle.memHandle, pool);
  EXPECT_NE(seen.maps[0].memHandle.memHandle, 0u);
  EXPECT_EQ(seen.maps[0].offset, 65536u);
  EXPECT_EQ(seen.maps[1].memHandle.memHandle, 0u);

  EXPECT_EQ(cuMemMapArrayAsync(maps.data(), 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMapArrayAsync(nullptr, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  maps[0].memHandle.memHandle = 0;  // natively this ends the process
  EXPECT_EQ(cuMemMapArrayAsync(maps.data(), 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  maps[0].memHandle.memHandle = pool;
  maps[1].resource.array = nullptr;
  EXPECT_EQ(cuMemMapArrayAsync(maps.data(), 2, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemRelease(pool), CUDA_SUCCESS);
}

TEST_F(ReferenceTest, CodeForBothProcessorsIsNeverAnsweredWithTheServersAddress) {
  CUlibrary library = nullptr;
  void* function = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, kNothingPtx, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryGetUnifiedFunction(&function, library, "nothing"), CUDA_ERROR_NOT_SUPPORTED);
  seen.unified = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(cuLibraryGetUnifiedFunction(&function, library, "nothing"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
