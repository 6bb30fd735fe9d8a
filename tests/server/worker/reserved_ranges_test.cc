// What a client may reserve, map and unmap, whatever it sends: the driver is asked for nothing else.
#include "server/worker/memory/reserved_ranges.h"

#include <gtest/gtest.h>

#include "generated/messages/virtual_memory.h"
#include "generated/mock/recording_table.h"
#include "protocol/wire/encoder.h"
#include "server/worker/memory/session_memory.h"
#include "tests/server/worker/memory/fake_vmm.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr Range kPlace{0x500000000000, 64 * kMiB};

class ReservedRangesTest : public testing::Test {
 protected:
  ReservedRangesTest() {
    const DriverTable memory = vmm_.Table();
    driver_ = MakeRecordingTable([](int) { return CUDA_SUCCESS; });
    driver_.cuDeviceGetAttribute = memory.cuDeviceGetAttribute;
    driver_.cuMemAddressReserve = memory.cuMemAddressReserve;
    driver_.cuMemAddressFree = memory.cuMemAddressFree;
    driver_.cuMemCreate = memory.cuMemCreate;
    driver_.cuMemRelease = memory.cuMemRelease;
    driver_.cuMemMap = memory.cuMemMap;
    driver_.cuMemUnmap = memory.cuMemUnmap;
    driver_.cuMemSetAccess = memory.cuMemSetAccess;
    options_.windows = SessionWindows(0, 0);
    client_ = std::make_unique<TestClient>(driver_, ChannelSizes{}, options_);
  }

  // The reply to this message; its result is -1 when the session has ended.
  template <typename Request>
  TestReply Send(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    client_->Send(Request::kId, kWantsReply, 1, {}, encoder.bytes());
    std::optional<TestReply> reply = client_->Next();
    if (reply) return std::move(*reply);
    TestReply none;
    none.header.result = -1;
    return none;
  }
  int Reserve(const Range& range, bool* reserved) {
    cuMemAddressReserveRequest request;
    request.base = range.base;
    request.bytes = range.bytes;
    const TestReply sent = Send(request);
    cuMemAddressReserveReply reply;
    reply.reserved = false;
    Decoder decoder(sent.payload);
    if (sent.header.result == CUDA_SUCCESS) {
      EXPECT_TRUE(reply.Decode(decoder));
    }
    *reserved = reply.reserved;
    return static_cast<int>(sent.header.result);
  }
  int Free(const Range& range) {
    cuMemAddressFreeRequest request;
    request.ptr = range.base;
    request.size = range.bytes;
    return static_cast<int>(Send(request).header.result);
  }
  int Map(uint64_t address, uint64_t bytes) {
    cuMemCreateRequest create;
    create.handle = HandleId::Of(0, HandleKind::kMemoryAllocation, 1, ++handles_);
    create.size = bytes;
    create.prop = {};
    create.flags = 0;
    EXPECT_EQ(Send(create).header.result, CUDA_SUCCESS);
    cuMemMapRequest map;
    map.ptr = address;
    map.size = bytes;
    map.offset = 0;
    map.handle = create.handle;
    map.flags = 0;
    return static_cast<int>(Send(map).header.result);
  }
  int Unmap(uint64_t address, uint64_t bytes) {
    cuMemUnmapRequest request;
    request.ptr = address;
    request.size = bytes;
    return static_cast<int>(Send(request).header.result);
  }
  int Allow(uint64_t address, uint64_t bytes) {
    cuMemSetAccessRequest request;
    request.ptr = address;
    request.size = bytes;
    *request.desc.Allocate(1) = {};
    request.count = 1;
    return static_cast<int>(Send(request).header.result);
  }

  FakeVmm vmm_;
  DriverTable driver_;
  WorkerOptions options_;
  std::unique_ptr<TestClient> client_;
  uint32_t handles_ = 0;
};

TEST_F(ReservedRangesTest, ReservesExactlyWhereItIsAsked) {
  bool reserved = false;
  EXPECT_EQ(Reserve(kPlace, &reserved), CUDA_SUCCESS);
  EXPECT_TRUE(reserved);
  EXPECT_EQ(vmm_.reserved.at(kPlace.base), kPlace.bytes);
  EXPECT_EQ(Free({kPlace.base, kPlace.bytes / 2}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free({kPlace.base + kMiB, kPlace.bytes}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free(kPlace), CUDA_SUCCESS);
  EXPECT_EQ(Free(kPlace), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(vmm_.reserved.empty());
  EXPECT_EQ(vmm_.mistakes, 0);
}

TEST_F(ReservedRangesTest, SaysWhenTheDriverHasSomethingThere) {
  vmm_.refused_base = kPlace.base + kMiB;
  vmm_.refused_bytes = kMiB;
  bool reserved = true;
  EXPECT_EQ(Reserve(kPlace, &reserved), CUDA_SUCCESS);
  EXPECT_FALSE(reserved);
  EXPECT_TRUE(vmm_.reserved.empty()) << "what the driver reserved elsewhere is given back";
  EXPECT_EQ(Map(kPlace.base, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ReservedRangesTest, NothingIsReservedInTheWindowsOfTheSession) {
  bool reserved = true;
  for (const Range& window : {options_.windows.device, options_.windows.host}) {
    EXPECT_EQ(Reserve({window.base + kMiB, kMiB}, &reserved), CUDA_SUCCESS);
    EXPECT_FALSE(reserved);
    EXPECT_EQ(Reserve({window.base - kMiB, 2 * kMiB}, &reserved), CUDA_SUCCESS);
    EXPECT_FALSE(reserved);
  }
  EXPECT_EQ(Reserve({kPlace.base, 0}, &reserved), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Reserve({UINT64_MAX - kMiB, 2 * kMiB}, &reserved), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(vmm_.reserved.empty());
}

TEST_F(ReservedRangesTest, MemoryIsMappedInReservedRangesAlone) {
  bool reserved = false;
  ASSERT_EQ(Reserve(kPlace, &reserved), CUDA_SUCCESS);
  for (const uint64_t address : {kPlace.base - 2 * kMiB, kPlace.end(), kPlace.end() - kMiB, options_.windows.device.base,
                                 uint64_t{0}, ~uint64_t{0} - kMiB}) {
    EXPECT_EQ(Map(address, 2 * kMiB), CUDA_ERROR_INVALID_VALUE) << std::hex << address;
    EXPECT_EQ(Unmap(address, 2 * kMiB), CUDA_ERROR_INVALID_VALUE) << std::hex << address;
    EXPECT_EQ(Allow(address, 2 * kMiB), CUDA_ERROR_INVALID_VALUE) << std::hex << address;
  }
  EXPECT_EQ(vmm_.mistakes, 0) << "the driver was asked";
  EXPECT_TRUE(vmm_.mapped.empty());
  EXPECT_EQ(Map(kPlace.base, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Allow(kPlace.base, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Unmap(kPlace.base, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Free(kPlace), CUDA_SUCCESS);
  EXPECT_EQ(Map(kPlace.base, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ReservedRangesTest, NeighboursAreOneRangeToCopies) {
  SessionMemory& memory = client_->worker().parts().memory();
  bool reserved = false;
  EXPECT_FALSE(memory.reserved().Contains(kPlace.base, 1));
  ASSERT_EQ(Reserve(kPlace, &reserved), CUDA_SUCCESS);
  ASSERT_EQ(Reserve({kPlace.end(), kMiB * 32}, &reserved), CUDA_SUCCESS);
  ASSERT_EQ(Reserve({kPlace.end() + 64 * kMiB, kMiB * 32}, &reserved), CUDA_SUCCESS);
  EXPECT_TRUE(memory.MayCopy(kPlace.base + 1, kPlace.bytes + 32 * kMiB - 1));
  EXPECT_TRUE(memory.reserved().Contains(kPlace.end() - 1, 2));
  EXPECT_FALSE(memory.reserved().Contains(kPlace.base, kPlace.bytes + 32 * kMiB + 1)) << "a gap follows";
  EXPECT_FALSE(memory.reserved().Contains(kPlace.base, 200 * kMiB));
  EXPECT_FALSE(memory.reserved().Contains(kPlace.base - 1, 2));
  EXPECT_FALSE(memory.reserved().Contains(kPlace.base, ~uint64_t{0}));
}

}  // namespace
}  // namespace tessera
