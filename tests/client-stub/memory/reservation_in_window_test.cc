// Reservations of address space with both ends in one process, when the server's driver reserves nothing where it is
// asked to: they lie in the session's device window then.
#include <cuda.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "generated/driver_table.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

constexpr uint64_t kSmall = uint64_t{2} << 20;
constexpr uint64_t kBytes = uint64_t{1} << 30;

Range window;  // the driver grants wishes there alone
int refused = 0;
decltype(DriverTable::cuMemAddressReserve) real_reserve = nullptr;

void Replace(DriverTable& driver) {
  real_reserve = driver.cuMemAddressReserve;
  driver.cuMemAddressReserve = [](CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wish,
                                  unsigned long long flags) {
    const bool granted = window.bytes == 0 || window.contains(wish, bytes);
    if (!granted) ++refused;
    return real_reserve(address, bytes, alignment, granted ? wish : 0, flags);
  };
}

class ReservationInWindowTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static auto* const ends = new BothEnds(&Replace);
    ASSERT_NE(ends->context(), nullptr);
    ends_ = ends;
    window = Memory().windows().device;
  }
  static ClientMemory& Memory() { return ends_->session().memory(); }
  void SetUp() override { refused = 0; }
  static CUdeviceptr Reserve(uint64_t bytes, uint64_t alignment = 0) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, alignment, 0, 0), CUDA_SUCCESS);
    EXPECT_TRUE(window.contains(address, bytes)) << std::hex << address;
    return address;
  }
  static void Free(CUdeviceptr address, uint64_t bytes) { EXPECT_EQ(cuMemAddressFree(address, bytes), CUDA_SUCCESS); }
  inline static BothEnds* ends_ = nullptr;
};

TEST_F(ReservationInWindowTest, MemoryIsMappedAndCopied) {
  const CUdeviceptr address = Reserve(2 * kSmall);  // its block goes on
  ClientMemory& memory = Memory();
  EXPECT_TRUE(memory.reservations().Covers({address, 2 * kSmall}));
  EXPECT_FALSE(memory.reservations().Contains(address + 2 * kSmall));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle physical = 0;
  ASSERT_EQ(cuMemCreate(&physical, 2 * kSmall, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + kSmall, 2 * kSmall, 0, physical, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(address, 2 * kSmall, 0, physical, 0), CUDA_SUCCESS);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(cuMemSetAccess(address, 2 * kSmall, &access, 1), CUDA_SUCCESS);
  std::vector<uint32_t> sent(2 * kSmall / 4), received(sent.size());
  std::iota(sent.begin(), sent.end(), 7u);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, sent.data(), 2 * kSmall), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH_v2(received.data(), address, 2 * kSmall), CUDA_SUCCESS);
  EXPECT_EQ(sent, received);
  EXPECT_EQ(cuMemcpyDtoH_v2(received.data(), address + 4, 2 * kSmall), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kSmall), CUDA_ERROR_INVALID_VALUE) << "it is mapped";
  EXPECT_EQ(cuMemUnmap(address, 2 * kSmall), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(address, 1, 16), CUDA_ERROR_INVALID_VALUE);
  Free(address, 2 * kSmall);
  EXPECT_EQ(cuMemRelease(physical), CUDA_SUCCESS);
}

TEST_F(ReservationInWindowTest, EveryLaterOneAsksForOnePlaceOutside) {
  const CUdeviceptr first = Reserve(kBytes);
  refused = 0;
  const CUdeviceptr second = Reserve(kBytes);
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(second >= first + kBytes || first >= second + kBytes);
  Free(first, kBytes);
  Free(second, kBytes);
  const CUdeviceptr again = Reserve(kBytes);
  EXPECT_TRUE(again == first || again == second) << "the addresses are free again";
  Free(again, kBytes);
}

TEST_F(ReservationInWindowTest, AlignmentsHold) {
  for (const uint64_t alignment : {kSmall, 16 * kSmall, kBytes}) {
    const CUdeviceptr address = Reserve(3 * kSmall, alignment);
    EXPECT_EQ(address % alignment, 0u);
    EXPECT_EQ(Memory().reservations().Find(address), (Range{address, 3 * kSmall}));
    Free(address, 3 * kSmall);
  }
}

TEST_F(ReservationInWindowTest, HalfOfTheWindowStaysMemorys) {
  std::vector<CUdeviceptr> all;
  CUdeviceptr address = 0;
  const uint64_t bytes = window.bytes / 8;
  while (all.size() < 8 && cuMemAddressReserve(&address, bytes, 0, 0, 0) == CUDA_SUCCESS) all.push_back(address);
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc_v2(&block, 3 * kSmall), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  for (const CUdeviceptr each : all) Free(each, bytes);
  Free(Reserve(bytes), bytes);
}

}  // namespace
}  // namespace tessera
