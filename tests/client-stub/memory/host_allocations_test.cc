// Physical memory on the host with both ends in one process, on the emulator: what the server's driver is told of it, in which
// context, and what a client may ask. What a program sees is in tests/system/programs/host_allocations.cu.
#include "client-stub/memory/host_allocations.h"
#include "client-stub/call/call.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "client-stub/session/session.h"
#include "generated/driver_table.h"
#include "generated/messages/service.h"
#include "protocol/base/mutex.h"
#include "protocol/channel/channel.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

constexpr size_t kBytes = size_t{4} << 20;
constexpr CallInfo::Mode kSync = CallInfo::Mode::kSync;

// Where memory of kBytes is registered. The server registers words of its own as well.
Mutex mutex;
std::set<void*> memories GUARDED_BY(mutex);
int Registered() {
  MutexLock lock(mutex);
  return static_cast<int>(memories.size());
}
std::atomic<bool> refuses{false};
std::atomic<bool> first_refuses{false};  // the context in which the next registration is tried, from then on
std::atomic<CUcontext> first{nullptr};
DriverTable original;

void Count(DriverTable& driver) {
  original = driver;
  driver.cuMemHostRegister_v2 = [](void* memory, size_t bytes, unsigned flags) {
    if (refuses) return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext current = nullptr;
    original.cuCtxGetCurrent(&current);
    if (first_refuses && first == nullptr) first = current;
    if (first_refuses && first == current) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const CUresult result = original.cuMemHostRegister_v2(memory, bytes, flags);
    MutexLock lock(mutex);
    if (result == CUDA_SUCCESS && bytes == kBytes) memories.insert(memory);
    return result;
  };
  driver.cuMemHostUnregister = [](void* memory) {
    const CUresult result = original.cuMemHostUnregister(memory);
    MutexLock lock(mutex);
    if (result == CUDA_SUCCESS) memories.erase(memory);
    return result;
  };
}

class HostAllocationsTest : public testing::Test {
 protected:
  void SetUp() override {
    static auto* const ends = new BothEnds(&Count);
    ends_ = ends;
    ASSERT_EQ(cuCtxSetCurrent(ends->context()), CUDA_SUCCESS);
    before_ = Registered();
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
    ASSERT_EQ(cuMemCreate(&memory_, kBytes, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&address_, 2 * kBytes, 0, 0, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemUnmap(address_, 2 * kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(address_, 2 * kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(memory_), CUDA_SUCCESS);
    EXPECT_EQ(Registered(), before_) << "the driver has memory that nobody has any more";
  }
  CUresult Allow(CUmemLocationType location, CUmemAccess_flags flags, size_t bytes = kBytes) {
    CUmemAccessDesc access{};
    access.location.type = location;
    access.flags = flags;
    return cuMemSetAccess(address_, bytes, &access, 1);
  }
  void MapForAll() {
    EXPECT_EQ(cuMemMap(address_, kBytes, 0, memory_, 0), CUDA_SUCCESS);
    EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
    EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  }
  // As a client that is none of ours may ask.
  template <typename Request>
  CUresult Ask(const char* name, const Request& request) {
    const CallInfo info{name, Request::kId, kSync, CallInfo::Context::kNone, CallInfo::Capture::kLegal, false, nullptr};
    Call call(info, false);
    call.MoveTo(ends_->session());
    return call.SyncAs(request);
  }
  CUresult MapSegment(uint32_t segment, uint64_t address, uint64_t bytes) {
    tesseraHostMapRequest request;
    request.segment = segment;
    request.address = address;
    request.bytes = bytes;
    return Ask("tesseraHostMap", request);
  }
  uint32_t Offer(uint64_t bytes) {
    Result<HostFile> file = HostFile::Create(HostFile::Kind::kAllocation, bytes, -1);
    EXPECT_TRUE(file.ok());
    Result<uint32_t> segment =
        ends_->session().channel().OfferFile(file->fd(), HostFile::kDataOffset, bytes, MapPlacement::Anywhere());
    EXPECT_TRUE(segment.ok());
    return *segment;
  }
  CUresult UnmapSegment(uint64_t address) {
    tesseraHostUnmapRequest request;
    request.address = address;
    return Ask("tesseraHostUnmap", request);
  }

  BothEnds* ends_ = nullptr;
  CUmemGenericAllocationHandle memory_ = 0;
  CUdeviceptr address_ = 0;
  int before_ = 0;
};

TEST_F(HostAllocationsTest, TheDriverHasWhatDevicesReach) {
  EXPECT_EQ(cuMemMap(address_, kBytes, 0, memory_, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 1);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 1);
  EXPECT_EQ(cuMemMap(address_ + kBytes, kBytes, 0, memory_, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 2 * kBytes), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 2) << "each mapping is registered by itself";
}

TEST_F(HostAllocationsTest, WhatTheDriverRefusesLeavesNothing) {
  EXPECT_EQ(cuMemMap(address_, kBytes, 0, memory_, 0), CUDA_SUCCESS);
  refuses = true;
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_OUT_OF_MEMORY);
  refuses = false;
  unsigned long long flags = 77;
  CUmemLocation device{};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  EXPECT_EQ(cuMemGetAccess(&flags, &device, address_), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(Allow(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 1);
}

TEST_F(HostAllocationsTest, ItOutlivesTheContextInWhichItIsRegistered) {
  CUcontext second = nullptr, third = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
  first = nullptr;
  first_refuses = true;
  MapForAll();
  EXPECT_EQ(Registered(), before_ + 1) << "the other context takes it";
  EXPECT_EQ(cuCtxDestroy_v2(second), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_) << "no context that is left takes it";
  ASSERT_EQ(cuCtxCreate_v2(&third, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 1) << "the next one does";
  first_refuses = false;
  EXPECT_EQ(cuCtxDestroy_v2(third), CUDA_SUCCESS);
  EXPECT_EQ(Registered(), before_ + 1);
}

TEST_F(HostAllocationsTest, AFileBeyondTheLimitOfTheProcessIsNoMemory) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{kBytes, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle memory = 0;
  EXPECT_EQ(cuMemCreate(&memory, kBytes, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(HostAllocationsTest, AClientMapsInItsReservationsAlone) {
  const uint64_t beside = address_ + 2 * kBytes - kBytes / 2;
  EXPECT_EQ(MapSegment(Offer(kBytes), 4096, kBytes), CUDA_ERROR_INVALID_VALUE) << "that is nobody's";
  EXPECT_EQ(MapSegment(Offer(kBytes), reinterpret_cast<uint64_t>(&original) & ~uint64_t{4095}, kBytes), CUDA_ERROR_INVALID_VALUE)
      << "that is the server's";
  EXPECT_EQ(MapSegment(Offer(kBytes), address_, 2 * kBytes), CUDA_ERROR_INVALID_VALUE) << "more than the segment has";
  EXPECT_EQ(MapSegment(Offer(kBytes), address_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(MapSegment(12345, address_, kBytes), CUDA_ERROR_INVALID_VALUE) << "it offered no such segment";
  EXPECT_EQ(MapSegment(Offer(kBytes), address_ + 1, kBytes), CUDA_ERROR_INVALID_VALUE) << "not a page";
  const uint32_t segment = Offer(kBytes);
  EXPECT_EQ(MapSegment(segment, address_ + kBytes, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(MapSegment(segment, address_, kBytes), CUDA_ERROR_INVALID_VALUE) << "it has been used";
  EXPECT_EQ(MapSegment(Offer(kBytes), beside, kBytes), CUDA_ERROR_INVALID_VALUE) << "something is mapped there";
  EXPECT_EQ(Registered(), before_ + 1);
  EXPECT_EQ(UnmapSegment(address_ + kBytes + 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(UnmapSegment(address_ + kBytes), CUDA_SUCCESS);
  EXPECT_EQ(UnmapSegment(address_ + kBytes), CUDA_ERROR_INVALID_VALUE) << "a second time";
}

}  // namespace
}  // namespace tessera
