// What the server asks of its driver once a program frees memory of a pool, with both ends in one process. A pool gives memory
// back at the driver's own synchronising calls alone, so that the server's watching of work would keep it from other
// processes of the GPU for ever.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>

#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

// How often the driver was asked to wait; the calls go on to the emulator's own.
std::atomic<int> stream_waits, event_waits, context_waits;
DriverTable original;

void Count(DriverTable& driver) {
  original = driver;
  driver.cuStreamSynchronize = [](CUstream stream) {
    ++stream_waits;
    return original.cuStreamSynchronize(stream);
  };
  driver.cuEventSynchronize = [](CUevent event) {
    ++event_waits;
    return original.cuEventSynchronize(event);
  };
  driver.cuCtxSynchronize = [] {
    ++context_waits;
    return original.cuCtxSynchronize();
  };
  // Memory of the emulator's pools is this process' own, where the client wants device memory to be nobody's.
  driver.cuMemAllocAsync = [](CUdeviceptr* memory, size_t, CUstream) {
    *memory = 0x10'0000'0000;
    return CUDA_SUCCESS;
  };
  driver.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
}

TEST(PoolFreeTest, WaitsAreTheDriversOwnAfterAFree) {
  static auto* const ends = new BothEnds(&Count);
  ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
  const auto wait_for_all = [&] {
    stream_waits = event_waits = context_waits = 0;
    EXPECT_EQ(cuMemsetD8Async(memory, 1, 16, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(memory, 2, 16, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(memory, 3, 16, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  };
  wait_for_all();
  EXPECT_EQ(stream_waits, 0);
  EXPECT_EQ(event_waits, 0);
  EXPECT_EQ(context_waits, 0);
  CUdeviceptr freed = 0;
  ASSERT_EQ(cuMemAllocAsync(&freed, 4096, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(freed, stream), CUDA_SUCCESS);
  wait_for_all();
  EXPECT_EQ(stream_waits, 1);
  EXPECT_EQ(event_waits, 1);
  EXPECT_EQ(context_waits, 1);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
