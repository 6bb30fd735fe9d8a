// A driver that loads code when it is first asked about, with both ends in one process: it waits for the device then, with a
// lock held that every call of it takes. A copy of registered memory, which needs the server's attention to go on, must not
// be in its way. Seen with driver 580: a training step of PyTorch between two hosts hung.
#include <cuda.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <shared_mutex>
#include <vector>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/code/nothing_ptx.h"

namespace tessera {
namespace {

DriverTable original;
std::shared_mutex driver_lock;

void LoadLazily(DriverTable& driver) {
  original = driver;
  driver.cuModuleGetFunction = [](CUfunction* function, CUmodule module, const char* name) {
    std::unique_lock lock(driver_lock);
    original.cuCtxSynchronize();
    return original.cuModuleGetFunction(function, module, name);
  };
  driver.cuEventQuery = [](CUevent event) {
    std::shared_lock lock(driver_lock);
    return original.cuEventQuery(event);
  };
  driver.cuEventDestroy_v2 = [](CUevent event) {
    std::shared_lock lock(driver_lock);
    return original.cuEventDestroy_v2(event);
  };
}

TEST(LazyLoadingTest, ACopyOfRegisteredMemoryIsNotInItsWay) {
  static auto* const ends = new BothEnds(&LoadLazily);
  ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
  constexpr size_t kBytes = 64 << 20;  // long enough that the copy is under way when the function is asked for
  std::vector<char> registered(kBytes, 1);
  CUdeviceptr device = 0;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(cuMemHostRegister_v2(registered.data(), kBytes, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&device, kBytes), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleLoadData(&module, kNothingPtx), CUDA_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(device, registered.data(), kBytes, stream), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(registered.data(), device, kBytes, stream), CUDA_SUCCESS);
  }
  std::future<CUresult> asked = std::async(std::launch::async, [&] {
    cuCtxSetCurrent(ends->context());
    return cuModuleGetFunction(&function, module, "nothing");
  });
  if (asked.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    ADD_FAILURE() << "the function was never found";
    std::_Exit(1);  // nothing of this process ends any more
  }
  EXPECT_EQ(asked.get(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(registered.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(device), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
