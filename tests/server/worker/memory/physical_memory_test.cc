#include "server/worker/memory/physical_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/server/worker/one_gpu.h"

namespace tessera {
namespace {

constexpr uint64_t kBytes = uint64_t{2} << 20;
constexpr uint64_t kAddress = uint64_t{1} << 40;

class PhysicalMemoryTest : public testing::Test {
 protected:
  PhysicalMemoryTest() {
    AddOneGpu(table_);
    gate_->row_count = 1;
    std::memset(gate_->rows[0].uuid, kOneGpuUuid, sizeof(gate_->rows[0].uuid));
    ledger_ = std::make_unique<MemoryLedger>(table_, GatePages{gate_.get(), report_.get(), -1}, StopPredicate());
  }
  static HandleId Id(uint32_t slot) { return HandleId::Of(1, HandleKind::kMemoryAllocation, 1, slot); }
  void Make(uint32_t slot, uint64_t bytes = kBytes) {
    EXPECT_TRUE(ledger_->Take(0, MemoryKind::kAllocations, bytes));
    memory_.Made(Id(slot), HeldMemory(*ledger_, 0, MemoryKind::kAllocations, bytes));
  }
  uint64_t held() const { return ledger_->HeldBytes(0); }

  DriverTable table_{};
  const std::unique_ptr<GatePage> gate_ = std::make_unique<GatePage>();
  const std::unique_ptr<ReportPage> report_ = std::make_unique<ReportPage>();
  std::unique_ptr<MemoryLedger> ledger_;
  PhysicalMemory memory_;
};

TEST_F(PhysicalMemoryTest, HeldUntilTheLastHandleAndTheLastMapping) {
  Make(5);
  EXPECT_EQ(memory_.Of(Id(5))->bytes(), kBytes);
  memory_.Mapped(Range{kAddress, kBytes / 2}, Id(5));
  memory_.Mapped(Range{kAddress + kBytes, kBytes / 2}, Id(5));
  memory_.Released(Id(5));
  EXPECT_EQ(memory_.Of(Id(5)), nullptr);
  memory_.Unmapped(Range{kAddress, kBytes / 2});
  EXPECT_EQ(held(), kBytes);
  memory_.Unmapped(Range{kAddress + kBytes, kBytes / 2});
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, AHandleOfAMappingHoldsItAgain) {
  Make(5);
  memory_.Mapped(Range{kAddress, kBytes}, Id(5));
  memory_.Released(Id(5));
  memory_.Retained(Id(5), kAddress + kBytes);  // beyond it: of nothing
  memory_.Retained(Id(5), kAddress + kBytes - 1);
  memory_.Unmapped(Range{kAddress, kBytes});
  EXPECT_EQ(held(), kBytes);
  memory_.Released(Id(5));
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, AHandleThatIsMadeAgainIsOtherMemory) {
  Make(5);
  memory_.Mapped(Range{kAddress, kBytes}, Id(5));
  memory_.Released(Id(5));
  Make(5, 2 * kBytes);
  EXPECT_EQ(held(), 3 * kBytes);
  memory_.Unmapped(Range{kAddress, kBytes});
  EXPECT_EQ(held(), 2 * kBytes);
  memory_.Released(Id(5));
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, ASecondHandleOfTheSameMemoryCountsOnce) {
  Make(5);
  memory_.Made(Id(6), memory_.Of(Id(5)));
  EXPECT_EQ(held(), kBytes);
  memory_.Released(Id(5));
  EXPECT_EQ(held(), kBytes);
  memory_.Released(Id(6));
  EXPECT_EQ(held(), 0u);
}

// As the server's descriptor does.
TEST_F(PhysicalMemoryTest, WhoHasItHoldsItAfterItsHandle) {
  Make(5);
  PhysicalMemory::Shared exported = memory_.Of(Id(5));
  memory_.Released(Id(5));
  EXPECT_EQ(held(), kBytes);
  exported.reset();
  EXPECT_EQ(held(), 0u);
}

// A client that uses a handle again has no way left to release the first memory.
TEST_F(PhysicalMemoryTest, WhatHasLostItsHandleIsHeld) {
  Make(5);
  memory_.Lost(Id(5));
  memory_.Released(Id(5));
  EXPECT_EQ(held(), kBytes);
  Make(6);
  Make(6, 2 * kBytes);
  memory_.Released(Id(6));
  EXPECT_EQ(held(), 2 * kBytes);
}

TEST_F(PhysicalMemoryTest, PartsOfAMappingAreHeldOn) {
  Make(5);
  memory_.Mapped(Range{kAddress, kBytes}, Id(5));
  memory_.Released(Id(5));
  memory_.Unmapped(Range{kAddress, kBytes / 2});
  EXPECT_EQ(held(), kBytes);
  memory_.Unmapped(Range{kAddress - kBytes, 3 * kBytes});
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, SeveralMappingsGoWithOneUnmapping) {
  Make(5);
  Make(6);
  memory_.Mapped(Range{kAddress, kBytes}, Id(5));
  memory_.Mapped(Range{kAddress + kBytes, kBytes}, Id(6));
  memory_.Released(Id(5));
  memory_.Released(Id(6));
  memory_.Unmapped(Range{kAddress, 2 * kBytes});
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, WhatASparseArrayHasStays) {
  Make(5);
  memory_.MappedInArray(Id(5));
  memory_.Released(Id(5));
  EXPECT_EQ(held(), kBytes);
  memory_.MappedInArray(Id(7));  // not known: of nothing
}

}  // namespace
}  // namespace tessera
