// Reservations of address space with both ends in one process: places that the server's driver does not reserve, and
// what it refuses. Programs: tests/system/programs/reservations.cc.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 30;  // what sanitized builds have room for, some times
constexpr uint64_t kSmall = uint64_t{2} << 20;
constexpr uint64_t kBlock = AddressReservations::kBlockBytes;
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kMuch = uint64_t{32} << 30;
#else
constexpr uint64_t kMuch = uint64_t{4} << 40;
#endif

// What the driver is asked and how it answers.
Range unavailable;   // ranges that touch this are reserved elsewhere, as a driver does that has something there
uint64_t least = 0;  // smaller ranges are reserved in blocks that are in use
std::atomic<int> fails{0}, free_fails{0};
std::vector<Range>&asked = *new std::vector<Range>, &freed = *new std::vector<Range>;  // the server outlives the tests
decltype(DriverTable::cuMemAddressReserve) real_reserve = nullptr;
decltype(DriverTable::cuMemAddressFree) real_free = nullptr;

void Replace(DriverTable& driver) {
  real_reserve = driver.cuMemAddressReserve;
  real_free = driver.cuMemAddressFree;
  driver.cuMemAddressReserve = [](CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wish,
                                  unsigned long long flags) {
    if (fails != 0) return static_cast<CUresult>(fails.load());
    asked.push_back({wish, bytes});
    const bool there = unavailable.bytes == 0 || wish >= unavailable.end() || wish + bytes <= unavailable.base;
    return real_reserve(address, bytes, alignment, there && bytes >= least ? wish : 0, flags);
  };
  driver.cuMemAddressFree = [](CUdeviceptr address, size_t bytes) {
    if (free_fails != 0) return static_cast<CUresult>(free_fails.load());
    freed.push_back({address, bytes});
    return real_free(address, bytes);
  };
}

BothEnds& TheEnds() {
  static auto* const ends = new BothEnds(&Replace);
  return *ends;
}

class ReservationTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(TheEnds().context(), nullptr);
    // The window is reserved with the first memory.
    CUdeviceptr block = 0;
    ASSERT_EQ(cuMemAlloc_v2(&block, 1024), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
    asked.clear();
    freed.clear();
  }
  void TearDown() override {
    unavailable = {};
    fails = free_fails = 0;
    least = 0;
  }
  static CUdeviceptr Reserve(uint64_t bytes, uint64_t wish = 0) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, wish, 0), CUDA_SUCCESS);
    return address;
  }
  static void Free(CUdeviceptr address, uint64_t bytes) { EXPECT_EQ(cuMemAddressFree(address, bytes), CUDA_SUCCESS); }
};

TEST_F(ReservationTest, TheServerReservesWhatTheClientPicked) {
  const CUdeviceptr address = Reserve(kBytes + kSmall);
  EXPECT_EQ(asked, std::vector<Range>({{address, kBytes + kBlock}})) << "whole blocks";
  Free(address, kBytes + kSmall);
  EXPECT_EQ(freed, asked);
  EXPECT_EQ(Reserve(kBytes + kSmall), address) << "the addresses are free again on both sides";
  Free(address, kBytes + kSmall);
}

TEST_F(ReservationTest, APlaceThatTheServerCannotHaveIsTriedElsewhere) {
  const CUdeviceptr usual = Reserve(kBytes);
  Free(usual, kBytes);
  unavailable = {usual + kBytes / 2, 4096};
  const CUdeviceptr first = Reserve(kBytes);
  EXPECT_GE(first, unavailable.end());
  EXPECT_LE(first, usual + kBytes) << "not far from there";
  const size_t tries = asked.size();
  EXPECT_LE(tries, 10u) << "each is a round trip";
  const CUdeviceptr second = Reserve(kBytes);
  EXPECT_EQ(asked.size(), tries + 1) << "what was refused is remembered";
  EXPECT_TRUE(second >= first + kBytes || second + kBytes <= first);
  EXPECT_TRUE(second >= unavailable.end() || second + kBytes <= unavailable.base);
  Free(first, kBytes);
  Free(second, kBytes);
  // Nothing of what was refused is left behind on either side.
  unavailable = {};
  const CUdeviceptr there = Reserve(kBytes, usual & ~(kBlock - 1));
  EXPECT_EQ(there, usual);
  Free(there, kBytes);
}

TEST_F(ReservationTest, APlaceBehindMuchThatTheServerHasIsFound) {
  const CUdeviceptr first = Reserve(kBlock);
  Free(first, kBlock);
  unavailable = Range{first, kMuch};
  const CUdeviceptr address = Reserve(kBlock);
  EXPECT_GE(address, first + kMuch);
  Free(address, kBlock);
}

TEST_F(ReservationTest, AWishThatTheServerCannotHaveIsServedElsewhere) {
  const CUdeviceptr usual = Reserve(kBytes);
  Free(usual, kBytes);
  unavailable = {usual, kBlock};
  const CUdeviceptr address = Reserve(kBytes, usual);
  EXPECT_NE(address, usual);
  Free(address, kBytes);
}

TEST_F(ReservationTest, WithoutAnyPlaceItIsOutOfMemoryAndNothingElseIs) {
  unavailable = {0, uint64_t{1} << 47};
  CUdeviceptr address = 7;
  EXPECT_EQ(cuMemAddressReserve(&address, kBytes, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 7u);
  EXPECT_LE(asked.size(), 100u) << "it gives up";
  EXPECT_EQ(freed.size(), asked.size()) << "what was reserved elsewhere is given back";
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc_v2(&block, kSmall * 3), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  unavailable = {};
  Free(Reserve(kBytes), kBytes);
}

TEST_F(ReservationTest, WhatTheDriverSaysOtherwiseIsTheAnswer) {
  fails = CUDA_ERROR_NOT_SUPPORTED;
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, kBytes, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemAddressReserve(&address, kSmall, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  fails = 0;
  address = Reserve(kBytes);
  free_fails = CUDA_ERROR_ILLEGAL_STATE;
  EXPECT_EQ(cuMemAddressFree(address, kBytes), CUDA_ERROR_ILLEGAL_STATE);
  free_fails = 0;
  EXPECT_NE(Reserve(kBytes, address), address) << "it is still reserved";
  Free(address, kBytes);
}

TEST_F(ReservationTest, SmallOnesShareABlock) {
  std::vector<CUdeviceptr> all;
  for (int i = 0; i < 16; ++i) all.push_back(Reserve(kSmall));
  EXPECT_EQ(asked.size(), 1u);
  all.push_back(Reserve(kSmall));
  EXPECT_EQ(asked.size(), 2u);
  std::ranges::sort(all);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i], all[i - 1] + kSmall);
  // One beside another: their border is theirs, their block is not.
  EXPECT_EQ(cuMemAddressFree(all[0], 2 * kSmall), CUDA_ERROR_INVALID_VALUE);
  const ClientMemory& memory = TheEnds().session().memory();
  AddressReservations& reservations = const_cast<ClientMemory&>(memory).reservations();
  EXPECT_TRUE(reservations.Covers({all[0], 2 * kSmall}));
  Free(all[1], kSmall);
  EXPECT_FALSE(reservations.Covers({all[0], 2 * kSmall}));
  EXPECT_TRUE(reservations.Contains(all[0] + kSmall - 1));
  EXPECT_FALSE(reservations.Contains(all[1]));
  EXPECT_EQ(Reserve(kSmall, all[1]), all[1]) << "a wish inside a block";
  EXPECT_TRUE(freed.empty());
  for (const CUdeviceptr address : all) Free(address, kSmall);
  EXPECT_EQ(freed.size(), 2u) << "empty blocks are given back";
}

TEST_F(ReservationTest, NothingIsMappedBeyondAReservation) {
  const CUdeviceptr address = Reserve(2 * kSmall);  // its block goes on
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle physical = 0;
  ASSERT_EQ(cuMemCreate(&physical, 2 * kSmall, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + kSmall, 2 * kSmall, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + 2 * kSmall, 2 * kSmall, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address, 2 * kSmall, 0, physical, 0), CUDA_SUCCESS);
  // What copies are told apart by.
  ClientMemory& memory = TheEnds().session().memory();
  EXPECT_EQ(memory.Classify(address, 2 * kSmall), Place::kDevice);
  EXPECT_EQ(memory.Classify(address, 2 * kSmall + 1), Place::kInvalid);
  EXPECT_EQ(cuMemUnmap(address, 2 * kSmall), CUDA_SUCCESS);
  EXPECT_EQ(memory.Classify(address, 16), Place::kInvalid) << "no host memory";
  EXPECT_EQ(cuMemsetD8_v2(address, 1, 16), CUDA_ERROR_INVALID_VALUE);
  Free(address, 2 * kSmall);
  EXPECT_EQ(cuMemRelease(physical), CUDA_SUCCESS);
}

// The last one: blocks stay large.
TEST_F(ReservationTest, BlocksAreAsLargeAsTheDriverNeeds) {
  constexpr uint64_t kLarge = AddressReservations::kLargeBlockBytes;
  least = 4 * kBlock;
  const CUdeviceptr first = Reserve(kSmall);
  ASSERT_EQ(asked, std::vector<Range>({{first, kBlock}, {first, kLarge}}));
  const CUdeviceptr second = Reserve(kSmall);
  const CUdeviceptr third = Reserve(kLarge - kSmall);
  EXPECT_EQ(asked.size(), 3u) << "one shares the block, and what was learned is remembered";
  for (const CUdeviceptr address : {first, second}) Free(address, kSmall);
  Free(third, kLarge - kSmall);
  const CUdeviceptr wished = Reserve(kSmall, first);
  EXPECT_EQ(wished, first);
  Free(wished, kSmall);
}

}  // namespace
}  // namespace tessera
