#include "server/worker/memory/device_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/server/worker/memory/fake_vmm.h"
#include "tests/support/sizes.h"

namespace tessera {
namespace {

constexpr uint64_t kHeapContext = 77;
constexpr Range kWindow{0x200000000000, uint64_t{1} << 40};

class DeviceHeapTest : public testing::Test {
 protected:
  DeviceHeapTest() : table_(vmm_.Table()), ledger_(table_, {}, {}), heap_(std::make_unique<DeviceHeap>(table_, ledger_)) {
    heap_->SetWindow(kWindow);
  }
  ~DeviceHeapTest() override {
    heap_.reset();
    EXPECT_EQ(vmm_.mistakes, 0);
    EXPECT_EQ(vmm_.used_bytes, 0u) << "memory was left behind";
    EXPECT_TRUE(vmm_.mapped.empty());
  }

  uint64_t Allocate(uint64_t bytes, uint64_t context = kHeapContext, CUdevice device = 0) {
    uint64_t address = 0;
    EXPECT_EQ(heap_->Allocate(context, device, bytes, &address), CUDA_SUCCESS);
    return address;
  }
  void Free(uint64_t address) {
    EXPECT_EQ(heap_->BeginFree(address), CUDA_SUCCESS);
    heap_->EndFree(address);
  }

  FakeVmm vmm_;
  const DriverTable table_;
  MemoryLedger ledger_;
  std::unique_ptr<DeviceHeap> heap_;
};

TEST_F(DeviceHeapTest, RefusesWhatCudaRefuses) {
  uint64_t address = 0;
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, 0, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, uint64_t{1} << 50, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, UINT64_MAX, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(heap_->BeginFree(kWindow.base), CUDA_ERROR_INVALID_VALUE);
  const uint64_t block = Allocate(100);
  EXPECT_EQ(heap_->BeginFree(block + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(heap_->BeginFree(block), CUDA_SUCCESS);
  EXPECT_EQ(heap_->BeginFree(block), CUDA_ERROR_INVALID_VALUE) << "freed twice";
  heap_->EndFree(block);
  EXPECT_EQ(heap_->BeginFree(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceHeapTest, DeviceWithoutVirtualMemoryIsRefused) {
  vmm_.supported = false;
  uint64_t address = 0;
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, 100, &address), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(DeviceHeapTest, MemoryIsNotReusedBeforeTheFreeHasEnded) {
  const uint64_t small = Allocate(1000);
  const uint64_t large = Allocate(5 * kMiB);
  ASSERT_EQ(heap_->BeginFree(small), CUDA_SUCCESS);
  ASSERT_EQ(heap_->BeginFree(large), CUDA_SUCCESS);
  const uint64_t other_small = Allocate(1000);
  const uint64_t other_large = Allocate(5 * kMiB);
  EXPECT_NE(other_small, small);
  EXPECT_NE(other_large, large);
  heap_->EndFree(small);
  heap_->EndFree(large);
  EXPECT_EQ(Allocate(1000), small);
  EXPECT_EQ(Allocate(5 * kMiB), large);
}

TEST_F(DeviceHeapTest, FreedChunksCostNoDriverCallAndCountAsFree) {
  const uint64_t block = Allocate(6 * kMiB);
  Free(block);
  EXPECT_EQ(heap_->CachedBytes(0), 6 * kMiB);
  const int creates = vmm_.creates;
  EXPECT_EQ(Allocate(6 * kMiB - 5), block);
  EXPECT_EQ(vmm_.creates, creates);
  EXPECT_EQ(heap_->CachedBytes(0), 0u);
}

// All others on the GPU lack what a session keeps.
TEST_F(DeviceHeapTest, WhatIsKeptHasABound) {
  vmm_.device_bytes = 4096 * kMiB;
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(Allocate(10 * kMiB));
  for (const uint64_t block : blocks) Free(block);
  EXPECT_EQ(vmm_.used_bytes, heap_->CachedBytes(0));
  EXPECT_LE(vmm_.used_bytes, 64 * kMiB);
  Free(Allocate(65 * kMiB));
  EXPECT_LE(vmm_.used_bytes, 64 * kMiB);
}

TEST_F(DeviceHeapTest, ManySmallBlocksLeaveNoMoreThanWhatIsKept) {
  vmm_.device_bytes = 4096 * kMiB;
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 100'000; ++i) blocks.push_back(Allocate(64 + static_cast<uint64_t>(i) * 53 % 4000));
  EXPECT_LE(vmm_.used_bytes, 300 * kMiB);
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  for (size_t i = blocks.size(); i-- > 0;) {
    if (i % 2 == 1) Free(blocks[i]);
  }
  EXPECT_EQ(vmm_.used_bytes, heap_->CachedBytes(0));
  EXPECT_LE(vmm_.used_bytes, 64 * kMiB + DeviceHeap::kSlabBytes);
}

TEST_F(DeviceHeapTest, AContextThatEndsLeavesNoMoreThanWhatIsKept) {
  vmm_.device_bytes = 4096 * kMiB;
  for (int i = 0; i < 20; ++i) Allocate(10 * kMiB + 100, 1);
  for (int i = 0; i < 20'000; ++i) Allocate(512, 1);
  heap_->FreeContext(1);
  EXPECT_EQ(vmm_.used_bytes, heap_->CachedBytes(0));
  EXPECT_LE(vmm_.used_bytes, 64 * kMiB);
}

TEST_F(DeviceHeapTest, ASlabWithoutBlocksCountsAsFree) {
  Free(Allocate(100));
  EXPECT_EQ(heap_->CachedBytes(0), DeviceHeap::kSlabBytes);
  const uint64_t block = Allocate(100);
  EXPECT_EQ(heap_->CachedBytes(0), 0u);
  EXPECT_EQ(heap_->ReleaseCached(0), 0u);
  Free(block);
  EXPECT_EQ(heap_->ReleaseCached(0), DeviceHeap::kSlabBytes);
  EXPECT_EQ(vmm_.used_bytes, 0u);
  Free(Allocate(100));
}

TEST_F(DeviceHeapTest, CacheIsGivenBackBeforeOutOfMemory) {
  vmm_.device_bytes = 20 * kMiB;
  Free(Allocate(12 * kMiB));
  uint64_t address = 0;
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, 16 * kMiB, &address), CUDA_SUCCESS);
  EXPECT_EQ(heap_->CachedBytes(0), 0u);
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, 6 * kMiB, &address), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DeviceHeapTest, ContextTakesItsBlocksAlongAndNoOthers) {
  const uint64_t mine = Allocate(1000, 1);
  Allocate(3 * kMiB, 1);
  const uint64_t other = Allocate(1000, 2);
  const uint64_t waiting = Allocate(1000, 1);
  ASSERT_EQ(heap_->BeginFree(waiting), CUDA_SUCCESS);
  heap_->FreeContext(1);
  EXPECT_EQ(heap_->BeginFree(mine), CUDA_ERROR_INVALID_VALUE);
  heap_->EndFree(waiting);  // its context went while it waited: nothing happens
  EXPECT_EQ(heap_->BeginFree(other), CUDA_SUCCESS);
}

TEST_F(DeviceHeapTest, PeerAccessConcernsPresentAndFutureBlocks) {
  const uint64_t before = Allocate(3 * kMiB);
  ASSERT_EQ(heap_->SetPeerAccess(0, 1, true), CUDA_SUCCESS);
  const uint64_t after = Allocate(7 * kMiB);
  EXPECT_TRUE(vmm_.mapped[before].readable.contains(1));
  EXPECT_TRUE(vmm_.mapped[after].readable.contains(1));
  EXPECT_TRUE(vmm_.mapped[after].readable.contains(0));
  ASSERT_EQ(heap_->SetPeerAccess(0, 1, false), CUDA_SUCCESS);
  EXPECT_FALSE(vmm_.mapped[before].readable.contains(1));
  EXPECT_FALSE(vmm_.mapped[Allocate(9 * kMiB)].readable.contains(1));
}

TEST_F(DeviceHeapTest, GoesAroundWhatTheDriverKeepsInTheWindow) {
  vmm_.refused_base = kWindow.base;
  vmm_.refused_bytes = uint64_t{3} << 30;
  const uint64_t block = Allocate(2 * kMiB);
  EXPECT_TRUE(kWindow.contains(block, 2 * kMiB));
  EXPECT_GE(block, kWindow.base + vmm_.refused_bytes);
}

TEST_F(DeviceHeapTest, WindowThatTheDriverRefusesIsOutOfMemory) {
  vmm_.refused_base = kWindow.base;
  vmm_.refused_bytes = kWindow.bytes;
  uint64_t address = 0;
  EXPECT_EQ(heap_->Allocate(kHeapContext, 0, 100, &address), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DeviceHeapTest, RandomUseNeverOverlaps) {
  vmm_.device_bytes = uint64_t{4} << 30;
  std::map<uint64_t, uint64_t> live;
  std::mt19937_64 random(11);
  for (int step = 0; step < 4000; ++step) {
    if (live.empty() || random() % 5 < 3) {
      const uint64_t bytes = 1 + random() % (random() % 8 == 0 ? 9 * kMiB : 40000);
      const uint64_t address = Allocate(bytes, 1 + random() % 2);
      ASSERT_EQ(address % DeviceHeap::kAlignmentBytes, 0u);
      ASSERT_TRUE(kWindow.contains(address, bytes));
      const auto after = live.lower_bound(address);
      if (after != live.end()) {
        ASSERT_LE(address + bytes, after->first);
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, address);
      }
      live.emplace(address, bytes);
    } else {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      Free(victim->first);
      live.erase(victim);
    }
  }
}

}  // namespace
}  // namespace tessera
