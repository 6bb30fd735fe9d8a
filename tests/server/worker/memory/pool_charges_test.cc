#include "server/worker/memory/pool_charges.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/server/worker/one_gpu.h"
#include "tests/support/sizes.h"

namespace tessera {
namespace {

constexpr CUdeviceptr kPoolAddress = 0x1000;
const CUmemoryPool kPool = reinterpret_cast<CUmemoryPool>(0x20);

uint64_t g_reserved = 0, g_used = 0;

class PoolChargesTest : public testing::Test {
 protected:
  PoolChargesTest() {
    g_reserved = g_used = 0;
    AddOneGpu(table_);
    table_.cuMemPoolGetAttribute = [](CUmemoryPool, CUmemPool_attribute attribute, void* value) {
      *static_cast<cuuint64_t*>(value) = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? g_used : g_reserved;
      return CUDA_SUCCESS;
    };
    table_.cuMemPoolTrimTo = [](CUmemoryPool, size_t) {
      g_reserved = g_used;
      return CUDA_SUCCESS;
    };
    table_.cuMemFreeAsync = [](CUdeviceptr, CUstream) {
      g_used = 0;
      return CUDA_SUCCESS;
    };
    gate_->row_count = 1;
    std::memset(gate_->rows[0].uuid, kOneGpuUuid, sizeof(gate_->rows[0].uuid));
    gate_->rows[0].memory_limit = gate_->rows[0].memory_budget = 64 * kMiB;
    ledger_ = std::make_unique<MemoryLedger>(table_, GatePages{gate_.get(), report_.get(), -1}, StopPredicate());
    pools_ = std::make_unique<PoolCharges>(table_, *ledger_);
    pools_->Made(kPool, 0);
  }
  // The driver's pool grows by `growth` for it.
  CUresult Allocate(uint64_t bytes, uint64_t growth) {
    CUdeviceptr address = 0;
    return pools_->Allocate(0, kPool, bytes, nullptr, &address, [&] {
      address = kPoolAddress;
      g_used += bytes;
      g_reserved += growth;
      return CUDA_SUCCESS;
    });
  }
  uint64_t held() const { return ledger_->HeldBytes(0); }

  DriverTable table_{};
  const std::unique_ptr<GatePage> gate_ = std::make_unique<GatePage>();
  const std::unique_ptr<ReportPage> report_ = std::make_unique<ReportPage>();
  std::unique_ptr<MemoryLedger> ledger_;
  std::unique_ptr<PoolCharges> pools_;
};

TEST_F(PoolChargesTest, CountsWhatThePoolReserves) {
  EXPECT_EQ(Allocate(kMiB, 32 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(held(), 32 * kMiB);
  EXPECT_EQ(Allocate(kMiB, 0), CUDA_SUCCESS);
  EXPECT_EQ(held(), 32 * kMiB);
}

TEST_F(PoolChargesTest, WhatGrewTooFarIsGivenBack) {
  EXPECT_EQ(Allocate(kMiB, 65 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(g_used, 0u);
  EXPECT_TRUE(pools_->Trim(0));
  EXPECT_EQ(held(), 0u);
}

TEST_F(PoolChargesTest, NothingIsAskedForThatCannotBe) {
  EXPECT_EQ(Allocate(65 * kMiB, 65 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(g_reserved, 0u);
}

// A pool hands an address out again before anybody was told that its free is done.
TEST_F(PoolChargesTest, AnAddressThatIsHandedOutAgainHoldsADestroyedPool) {
  ASSERT_EQ(Allocate(32 * kMiB, 32 * kMiB), CUDA_SUCCESS);
  PoolCharges::Freeing first = pools_->BeginFree(kPoolAddress);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pools_->BeginFree(kPoolAddress), nullptr);
  g_used = 0;
  ASSERT_EQ(Allocate(32 * kMiB, 0), CUDA_SUCCESS);
  pools_->EndFree(std::move(first));
  pools_->Destroyed(kPool);
  EXPECT_EQ(held(), 32 * kMiB);
  pools_->EndFree(pools_->BeginFree(kPoolAddress));
  EXPECT_EQ(held(), 0u);
  EXPECT_TRUE(pools_->Trim(0)) << "one has ended";
  EXPECT_FALSE(pools_->Trim(0));
}

// As the server's descriptor does.
TEST_F(PoolChargesTest, WhoHasADestroyedPoolHoldsWhatItHad) {
  ASSERT_EQ(Allocate(32 * kMiB, 32 * kMiB), CUDA_SUCCESS);
  std::shared_ptr<void> exported = pools_->Of(kPool);
  pools_->EndFree(pools_->BeginFree(kPoolAddress));
  pools_->Destroyed(kPool);
  EXPECT_EQ(held(), 32 * kMiB);
  exported.reset();
  EXPECT_EQ(held(), 0u);
}

// It was destroyed, and nobody has said so yet.
TEST_F(PoolChargesTest, APoolOfWhichTheDriverSaysNothingHoldsOn) {
  ASSERT_EQ(Allocate(32 * kMiB, 32 * kMiB), CUDA_SUCCESS);
  table_.cuMemPoolGetAttribute = [](CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_ERROR_INVALID_VALUE; };
  pools_->Measure(0);
  EXPECT_EQ(held(), 32 * kMiB);
}

TEST_F(PoolChargesTest, AFreeThatTheDriverRefusesHoldsOn) {
  ASSERT_EQ(Allocate(32 * kMiB, 32 * kMiB), CUDA_SUCCESS);
  pools_->UndoFree(kPoolAddress, pools_->BeginFree(kPoolAddress));
  pools_->Destroyed(kPool);
  EXPECT_EQ(held(), 32 * kMiB);
}

}  // namespace
}  // namespace tessera
