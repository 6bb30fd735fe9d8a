// A process with sessions of two servers, each with an emulator of its own, all in this process: whose call a call is, and what
// goes between the servers. Programs, and the loss of a server: tests/system/several_servers_test.py.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/two_servers.h"

namespace tessera {
namespace {

constexpr size_t kBytes = (size_t{4} << 20) + 5;  // some pieces and a rest

// Holds a stream until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  static void Wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
  }
};

class TwoServers : public testing::Test {
 protected:
  TwoServers() {
    TwoServersInProcess::Start();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[i], i), CUDA_SUCCESS);
      Use(i);
      EXPECT_EQ(cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      EXPECT_EQ(cuMemAlloc(&memory_[i], kBytes), CUDA_SUCCESS);
    }
  }
  ~TwoServers() override {
    cuCtxSetCurrent(nullptr);
    for (int i = 0; i < 2; ++i) cuDevicePrimaryCtxRelease(i);
  }
  void Use(int device) { EXPECT_EQ(cuCtxSetCurrent(contexts_[device]), CUDA_SUCCESS); }
  static std::vector<unsigned char> Pattern(int seed) {
    std::vector<unsigned char> made(kBytes);
    for (size_t i = 0; i < kBytes; ++i) made[i] = static_cast<unsigned char>(i * 13 + i / 251 + seed);
    return made;
  }
  std::vector<unsigned char> Read(int device) {
    std::vector<unsigned char> back(kBytes);
    EXPECT_EQ(cuMemcpyDtoH(back.data(), memory_[device], kBytes), CUDA_SUCCESS);
    return back;
  }

  CUcontext contexts_[2] = {};
  CUstream streams_[2] = {};
  CUdeviceptr memory_[2] = {};
};

TEST_F(TwoServers, CallsGoToWhoeverHasWhatTheyName) {
  int count = 0, value = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 0x1000);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceCanAccessPeer(&value, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
  Use(0);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[1], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  // Objects of the other server.
  EXPECT_EQ(cuStreamSynchronize(streams_[1]), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuStreamGetDevice(streams_[1], &device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory_[1]), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  // Of two servers in one call: one of them is unknown where the call goes.
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, streams_[1]), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemsetD8Async(memory_[1], 1, 16, streams_[0]), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  // A pool of the other server's device.
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&block, 4096, pool, streams_[0]), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory_[1]), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory_[1]), CUDA_ERROR_INVALID_VALUE);
}

// Reservations belong to the server of the current context, and no address to two of them.
TEST_F(TwoServers, ReservationsNeverCollide) {
  constexpr size_t kReserved = size_t{1} << 30, kMapped = size_t{2} << 20;
  CUdeviceptr address[2] = {};
  for (int i = 0; i < 2; ++i) {
    Use(i);
    ASSERT_EQ(cuMemAddressReserve(&address[i], kReserved, 0, address[0], 0), CUDA_SUCCESS);
  }
  EXPECT_TRUE(address[1] >= address[0] + kReserved || address[0] >= address[1] + kReserved);
  for (int i = 0; i < 2; ++i) {
    Use(1 - i);  // the call goes to whoever has the address
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, i};
    CUmemGenericAllocationHandle physical = 0;
    ASSERT_EQ(cuMemCreate(&physical, kMapped, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(address[1 - i], kMapped, 0, physical, 0), CUDA_ERROR_INVALID_VALUE) << "the other server's addresses";
    EXPECT_EQ(cuMemMap(address[i], kMapped, 0, physical, 0), CUDA_SUCCESS);
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemSetAccess(address[i], kMapped, &access, 1), CUDA_SUCCESS);
    Use(i);
    EXPECT_EQ(cuMemsetD8(address[i], static_cast<unsigned char>(i + 1), kMapped), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(physical), CUDA_SUCCESS);
  }
  for (int i = 0; i < 2; ++i) {
    Use(1 - i);
    unsigned char byte = 0;
    EXPECT_EQ(cuMemcpyDtoH(&byte, address[i] + kMapped - 1, 1), CUDA_SUCCESS);
    EXPECT_EQ(byte, i + 1);
    EXPECT_EQ(cuMemUnmap(address[i], kMapped), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(&byte, address[i], 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(address[i], kReserved), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(address[i], kReserved), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(TwoServers, ACopyBetweenServersHasItsPlaceInItsStream) {
  for (int home = 0; home < 2; ++home) {
    for (int from = 0; from < 2; ++from) {
      const int to = 1 - from;
      const auto before = Pattern(1), made = Pattern(2 + home * 2 + from);
      ASSERT_EQ(cuMemcpyHtoD(memory_[from], before.data(), kBytes), CUDA_SUCCESS);
      Gate gate;
      Use(home);
      ASSERT_EQ(cuLaunchHostFunc(streams_[home], &Gate::Wait, &gate), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyHtoDAsync(memory_[from], made.data(), kBytes, streams_[home]), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyPeerAsync(memory_[to], contexts_[to], memory_[from], contexts_[from], kBytes, streams_[home]),
                CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyHtoDAsync(memory_[from], before.data(), kBytes, streams_[home]), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamQuery(streams_[home]), CUDA_ERROR_NOT_READY);
      gate.open = true;
      ASSERT_EQ(cuStreamSynchronize(streams_[home]), CUDA_SUCCESS);
      EXPECT_TRUE(Read(to) == made);
      EXPECT_TRUE(Read(from) == before);
    }
  }
}

TEST_F(TwoServers, AStreamWaitsForAnotherServersEvent) {
  Gate gate;
  const auto made = Pattern(9);
  CUevent event = nullptr;
  Use(1);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(streams_[0], event, 0), CUDA_SUCCESS);  // never recorded: nothing to wait for
  EXPECT_EQ(cuStreamSynchronize(streams_[0]), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(streams_[1], &Gate::Wait, &gate), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(memory_[1], made.data(), kBytes, streams_[1]), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, streams_[1]), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(streams_[0], event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(memory_[0], memory_[1], kBytes, streams_[0]), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(streams_[0]), CUDA_ERROR_NOT_READY);
  gate.open = true;
  ASSERT_EQ(cuStreamSynchronize(streams_[0]), CUDA_SUCCESS);
  EXPECT_TRUE(Read(0) == made);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(TwoServers, ThreadsCopyBothWaysAtOnce) {
  std::vector<std::thread> threads;
  for (int home = 0; home < 2; ++home) {
    threads.emplace_back([this, home] {
      Use(home);
      CUdeviceptr here = 0, there = 0;
      constexpr size_t kSize = 100'001;
      ASSERT_EQ(cuMemAlloc(&here, kSize), CUDA_SUCCESS);
      Use(1 - home);
      ASSERT_EQ(cuMemAlloc(&there, kSize), CUDA_SUCCESS);
      Use(home);
      for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(cuMemsetD8Async(here, static_cast<unsigned char>(round), kSize, streams_[home]), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoDAsync(there, here, kSize, streams_[home]), CUDA_SUCCESS);
      }
      ASSERT_EQ(cuStreamSynchronize(streams_[home]), CUDA_SUCCESS);
      std::vector<unsigned char> back(kSize);
      ASSERT_EQ(cuMemcpyDtoH(back.data(), there, kSize), CUDA_SUCCESS);
      EXPECT_EQ(back, std::vector<unsigned char>(kSize, 19));
      EXPECT_EQ(cuMemFree(here), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFree(there), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera
