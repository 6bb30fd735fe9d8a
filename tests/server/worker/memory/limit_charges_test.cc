#include "server/worker/memory/limit_charges.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

#include "tests/server/worker/one_gpu.h"
#include "tests/support/sizes.h"

namespace tessera {
namespace {

constexpr uint64_t kThreads = 4 * 1024;  // that the device can hold
const HandleId kContext = HandleId::Of(0, HandleKind::kContext, 1, 3);
const HandleId kOther = HandleId::Of(0, HandleKind::kContext, 1, 3 + 16);  // its slot meets the other's

std::map<CUlimit, size_t> g_limits;

class LimitChargesTest : public testing::Test {
 protected:
  LimitChargesTest() {
    g_limits = {{CU_LIMIT_STACK_SIZE, 1024}, {CU_LIMIT_MALLOC_HEAP_SIZE, 8 * kMiB}};
    AddOneGpu(table_);
    table_.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
      *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 1024;
      return CUDA_SUCCESS;
    };
    table_.cuCtxGetLimit = [](size_t* value, CUlimit limit) {
      *value = g_limits[limit];
      return CUDA_SUCCESS;
    };
    gate_->row_count = 1;
    std::memset(gate_->rows[0].uuid, kOneGpuUuid, sizeof(gate_->rows[0].uuid));
    gate_->rows[0].memory_limit = gate_->rows[0].memory_budget = 64 * kMiB;
    ledger_ = std::make_unique<MemoryLedger>(table_, GatePages{gate_.get(), report_.get(), -1}, StopPredicate());
    limits_ = std::make_unique<LimitCharges>(table_, *ledger_);
  }
  // A launch of a kernel, which the driver does with this result. CUDA_ERROR_OUT_OF_MEMORY: it was not asked.
  CUresult Launch(uint64_t local_bytes, CUresult result = CUDA_SUCCESS, HandleId context = kContext) {
    if (!limits_->BeginLaunch(context.value(), 0, local_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t& limit = g_limits[CU_LIMIT_STACK_SIZE];
    if (result == CUDA_SUCCESS && local_bytes > limit) limit = local_bytes;
    limits_->EndLaunch(context.value(), context);
    return result;
  }
  CUresult Set(CUlimit limit, uint64_t value, CUresult result = CUDA_SUCCESS) {
    return limits_->Set(kContext.value(), 0, limit, value, [&] {
      if (result == CUDA_SUCCESS) g_limits[limit] = value;
      return result;
    });
  }
  uint64_t held() const { return ledger_->HeldBytes(0, MemoryKind::kKernels); }

  DriverTable table_{};
  const std::unique_ptr<GatePage> gate_ = std::make_unique<GatePage>();
  const std::unique_ptr<ReportPage> report_ = std::make_unique<ReportPage>();
  std::unique_ptr<MemoryLedger> ledger_;
  std::unique_ptr<LimitCharges> limits_;
};

TEST_F(LimitChargesTest, AKernelTakesWhatItNeedsBeyondTheContextsOwn) {
  EXPECT_EQ(Launch(1024), CUDA_SUCCESS);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(Launch(1024 + 2048), CUDA_SUCCESS);
  EXPECT_EQ(held(), 2048 * kThreads);
  EXPECT_EQ(Launch(2048), CUDA_SUCCESS) << "it has that";
  EXPECT_EQ(Launch(1024 + 2049), CUDA_SUCCESS);
  EXPECT_EQ(held(), 2048 * kThreads + 2 * kMiB) << "the driver takes it in pieces of 2 MiB";
}

TEST_F(LimitChargesTest, ALaunchBeyondTheLimitIsNotDone) {
  EXPECT_EQ(Launch(1024 + 64 * kMiB / kThreads), CUDA_SUCCESS);
  EXPECT_EQ(held(), 64 * kMiB);
  EXPECT_EQ(Launch(1024 + 64 * kMiB / kThreads + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Launch(UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(held(), 64 * kMiB);
}

TEST_F(LimitChargesTest, WhatTheDriverRefusesIsNotHeld) {
  EXPECT_EQ(Launch(8192, CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 8192, CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(held(), 0u);
}

TEST_F(LimitChargesTest, TheProgramsLimitAndLaunchesAreOneThing) {
  EXPECT_EQ(Launch(1024 + 4096), CUDA_SUCCESS);
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 1024 + 2048), CUDA_SUCCESS);
  EXPECT_EQ(held(), 2048 * kThreads) << "given back at once";
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 1024 + 8192), CUDA_SUCCESS);
  EXPECT_EQ(held(), 8192 * kThreads);
  EXPECT_EQ(Launch(1024 + 4096), CUDA_SUCCESS);
  EXPECT_EQ(held(), 8192 * kThreads);
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 256), CUDA_SUCCESS);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 1024 + 65 * kMiB / kThreads), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(g_limits[CU_LIMIT_STACK_SIZE], 256u);
}

TEST_F(LimitChargesTest, ALaunchThatFitsNeedsNoLook) {
  EXPECT_FALSE(limits_->Fits(kContext, 1));
  EXPECT_FALSE(limits_->Fits(HandleId(), 1));
  EXPECT_EQ(Launch(4096), CUDA_SUCCESS);
  EXPECT_TRUE(limits_->Fits(kContext, 4096));
  EXPECT_FALSE(limits_->Fits(kContext, 4097));
  EXPECT_FALSE(limits_->Fits(kOther, 1));
  EXPECT_EQ(Launch(16, CUDA_SUCCESS, kOther), CUDA_SUCCESS);
  EXPECT_FALSE(limits_->Fits(kContext, 1)) << "another has its place";
  EXPECT_EQ(Launch(16), CUDA_SUCCESS);
  EXPECT_TRUE(limits_->Fits(kContext, 4096));
  EXPECT_EQ(Set(CU_LIMIT_STACK_SIZE, 2048), CUDA_SUCCESS);
  EXPECT_FALSE(limits_->Fits(kContext, 4096)) << "the driver takes it again";
  EXPECT_EQ(Launch(16), CUDA_SUCCESS);
  limits_->Forget(kContext.value());
  EXPECT_FALSE(limits_->Fits(kContext, 16)) << "the next context may have its slot";
}

// What one of two has counted for is not given back by the end of the other.
TEST_F(LimitChargesTest, OfTwoLaunchesAtOnceNeitherGivesBackTheOthers) {
  ASSERT_TRUE(limits_->BeginLaunch(kContext.value(), 0, 1024 + 8192));
  EXPECT_EQ(Launch(1024 + 4096), CUDA_SUCCESS);
  EXPECT_EQ(held(), 8192 * kThreads);
  g_limits[CU_LIMIT_STACK_SIZE] = 1024 + 8192;
  limits_->EndLaunch(kContext.value(), kContext);
  EXPECT_EQ(held(), 8192 * kThreads);
}

// A graph that was launched without a look, say.
TEST_F(LimitChargesTest, WhatTheDriverHasTakenByItselfCounts) {
  EXPECT_EQ(limits_->OwnBytes(kContext.value(), 0), 1024u);
  g_limits[CU_LIMIT_STACK_SIZE] = 1024 + 80 * kMiB / kThreads;
  EXPECT_EQ(Launch(16), CUDA_SUCCESS);
  EXPECT_EQ(held(), 80 * kMiB);
  EXPECT_EQ(limits_->OwnBytes(kContext.value(), 0), 1024u);
}

TEST_F(LimitChargesTest, AllOfItIsBackWithTheContext) {
  EXPECT_EQ(Set(CU_LIMIT_MALLOC_HEAP_SIZE, 24 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Launch(1024 + 4096), CUDA_SUCCESS);
  EXPECT_EQ(held(), 16 * kMiB + 4096 * kThreads);
  EXPECT_EQ(Set(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  limits_->Forget(kContext.value());
  EXPECT_EQ(held(), 0u);
}

// A limit may be given to a vGPU while its programs run.
TEST_F(LimitChargesTest, CountsWithoutALimit) {
  gate_->rows[0].memory_limit = gate_->rows[0].memory_budget = 0;
  EXPECT_EQ(Launch(1024 + 65536), CUDA_SUCCESS);
  EXPECT_EQ(held(), 65536 * kThreads);
}

}  // namespace
}  // namespace tessera
