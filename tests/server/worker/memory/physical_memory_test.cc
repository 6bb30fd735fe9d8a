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
  void Make(PhysicalMemory::Handle handle, uint64_t bytes = kBytes) {
    EXPECT_TRUE(ledger_->Take(0, MemoryKind::kAllocations, bytes));
    memory_.Made(handle, HeldMemory(*ledger_, 0, MemoryKind::kAllocations, bytes));
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
  EXPECT_EQ(memory_.BytesOf(5), kBytes);
  memory_.Mapped(Range{kAddress, kBytes / 2}, 5);
  memory_.Mapped(Range{kAddress + kBytes, kBytes / 2}, 5);
  memory_.Released(5);
  EXPECT_EQ(memory_.BytesOf(5), 0u);
  memory_.Unmapped(Range{kAddress, kBytes / 2});
  EXPECT_EQ(held(), kBytes);
  memory_.Unmapped(Range{kAddress + kBytes, kBytes / 2});
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, AHandleOfAMappingHoldsItAgain) {
  Make(5);
  memory_.Mapped(Range{kAddress, kBytes}, 5);
  memory_.Released(5);
  memory_.Retained(5, kAddress + kBytes);  // beyond it: of nothing
  memory_.Retained(5, kAddress + kBytes - 1);
  memory_.Unmapped(Range{kAddress, kBytes});
  EXPECT_EQ(held(), kBytes);
  memory_.Released(5);
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, ANumberThatIsUsedAgainIsOtherMemory) {
  Make(5);
  memory_.Mapped(Range{kAddress, kBytes}, 5);
  memory_.Released(5);
  Make(5, 2 * kBytes);
  EXPECT_EQ(held(), 3 * kBytes);
  memory_.Unmapped(Range{kAddress, kBytes});
  EXPECT_EQ(held(), 2 * kBytes);
  memory_.Released(5);
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, ASecondHandleOfOneNumberCountsOnce) {
  Make(5);
  Make(5);
  EXPECT_EQ(held(), kBytes);
  memory_.Released(5);
  EXPECT_EQ(held(), kBytes);
  memory_.Released(5);
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, SeveralMappingsGoWithOneUnmapping) {
  Make(5);
  Make(6);
  memory_.Mapped(Range{kAddress, kBytes}, 5);
  memory_.Mapped(Range{kAddress + kBytes, kBytes}, 6);
  memory_.Released(5);
  memory_.Released(6);
  memory_.Unmapped(Range{kAddress, 2 * kBytes});
  EXPECT_EQ(held(), 0u);
}

TEST_F(PhysicalMemoryTest, WhatASparseArrayHasStays) {
  Make(5);
  memory_.MappedInArray(5);
  memory_.Released(5);
  EXPECT_EQ(held(), kBytes);
  memory_.MappedInArray(7);  // not known: of nothing
}

}  // namespace
}  // namespace tessera
