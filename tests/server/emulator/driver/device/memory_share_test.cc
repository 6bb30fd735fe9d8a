#include "server/emulator/driver/device/memory_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace tessera::emulator {
namespace {

constexpr uint64_t kTotalBytes = 1 << 20;

class MemoryShareTest : public testing::Test {
 protected:
  MemoryShareTest() { page_->slots_end = 4; }
  MemoryShare Share(uint32_t slot) { return {page_->devices[0], page_->slots_end, slot, kTotalBytes}; }
  DevicePage::Slot& Row(uint32_t slot) { return page_->devices[0].slots[slot]; }

  std::unique_ptr<DevicePage> page_ = std::make_unique<DevicePage>();
};

TEST_F(MemoryShareTest, AllTogetherTakeNoMoreThanThereIs) {
  MemoryShare first = Share(0), second = Share(3);
  EXPECT_TRUE(first.Take(kTotalBytes - 100));
  EXPECT_FALSE(second.Take(101));
  EXPECT_TRUE(second.Take(100));
  EXPECT_EQ(first.used_by_all(), kTotalBytes);
  first.GiveBack(40);
  EXPECT_EQ(second.used_by_all(), kTotalBytes - 40);
  EXPECT_TRUE(second.Take(40));
  EXPECT_FALSE(second.Take(UINT64_MAX));
}

TEST_F(MemoryShareTest, ManyAtOnceNeverExceedIt) {
  std::vector<std::thread> processes;
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> exceeded{false};
  for (uint32_t slot = 0; slot < 4; ++slot) {
    processes.emplace_back([&, slot] {
      MemoryShare share = Share(slot);
      for (uint64_t i = 0; i < 2000; ++i) {
        const uint64_t bytes = kTotalBytes / 3 + i;
        if (!share.Take(bytes)) continue;
        if (taken.fetch_add(bytes) + bytes > kTotalBytes) exceeded = true;
        taken -= bytes;
        share.GiveBack(bytes);
      }
    });
  }
  for (std::thread& process : processes) process.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(Share(0).used_by_all(), 0u);
}

TEST_F(MemoryShareTest, WhatFitsIsNotRefusedForWhatAnotherAsksInVain) {
  MemoryShare share = Share(0);
  // This one asks for all, and will be refused as soon as it has looked.
  Row(1).used_bytes = kTotalBytes / 2;
  Row(1).asked_bytes = kTotalBytes;
  std::thread other([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Row(1).asked_bytes = 0;
  });
  EXPECT_TRUE(share.Take(kTotalBytes / 2));
  other.join();
}

TEST_F(MemoryShareTest, OneThatDiedWhileItAskedIsInTheWayForABoundedTime) {
  Row(1).asked_bytes = kTotalBytes;
  EXPECT_FALSE(Share(0).Take(1));
  Row(1).asked_bytes = 0;
  EXPECT_TRUE(Share(0).Take(1));
}

TEST_F(MemoryShareTest, NumbersOfOthersAreBounded) {
  for (uint32_t slot = 1; slot < 4; ++slot) Row(slot).used_bytes = UINT64_MAX - slot;
  page_->slots_end = UINT32_MAX;
  EXPECT_EQ(Share(0).used_by_all(), kTotalBytes);
  EXPECT_FALSE(Share(0).Take(1));
}

}  // namespace
}  // namespace tessera::emulator
