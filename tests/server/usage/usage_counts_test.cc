// From what a broker counts to records.
#include "server/broker/usage/usage_counts.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

VgpuMetrics Vgpu(const std::string& name, double busy_s, uint32_t sessions) {
  VgpuMetrics vgpu;
  vgpu.name = name;
  vgpu.gpu = "GPU-1";
  vgpu.owners = "*";
  vgpu.busy_s = busy_s;
  vgpu.sessions = sessions;
  vgpu.memory_held_bytes = 99;
  vgpu.memory_held_by_kind[2] = 99;
  return vgpu;
}

TEST(UsageCounts, WhatCameBetweenTwoLooks) {
  Metrics before, now;
  before.vgpus = {Vgpu("a", 1, 1), Vgpu("rests", 5, 0)};
  now.vgpus = {Vgpu("a", 1.5, 1), Vgpu("rests", 5, 0), Vgpu("waits", 0, 2), Vgpu("left", 0.25, 0), Vgpu("default", 9, 1)};
  now.vgpus[0].work.kernels = 3;
  now.vgpus[0].work.graphs = 4;
  const std::vector<UsageBatch> batches = UsageSince(&before, now, 77);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].second, 77);
  ASSERT_EQ(batches[0].records.size(), 3U);
  EXPECT_EQ(batches[0].records[0].name, "a");
  EXPECT_EQ(batches[0].records[0].sums, (UsageSums{500'000, 0, 0, 99, 7, {0, 0, 99}}));
  EXPECT_EQ(batches[0].records[1].name, "waits");
  EXPECT_EQ(batches[0].records[2].name, "left");
  EXPECT_EQ(batches[0].records[2].sums.busy_us, 250'000U);
}

TEST(UsageCounts, AVgpuThatWasMadeAnewBeginsAtZero) {
  Metrics before, now;
  before.vgpus = {Vgpu("a", 10, 1)};
  now.vgpus = {Vgpu("a", 0.5, 1)};
  EXPECT_EQ(UsageSince(&before, now, 1).at(0).records.at(0).sums.busy_us, 500'000U);
  now.vgpus[0].row = 1;  // on another GPU it is another vGPU
  now.vgpus[0].busy_s = 11;
  EXPECT_EQ(UsageSince(&before, now, 1).at(0).records.at(0).sums.busy_us, 11'000'000U);
}

TEST(UsageCounts, ManyAreSeveralMessages) {
  Metrics now;
  for (int i = 0; i < 600; ++i) {
    now.vgpus.push_back(Vgpu("v" + std::to_string(i), 1, 1));
    now.vgpus.back().owners = std::string(i == 5 ? UsageBatch::kOwnersBytesMax + 1 : 1'000, 'x');
  }
  const std::vector<UsageBatch> batches = UsageSince(nullptr, now, 1);
  EXPECT_GT(batches.size(), 1U);
  size_t records = 0;
  for (const UsageBatch& batch : batches) {
    Encoder out(kUsageMessageBytesMax);
    batch.Encode(out);
    EXPECT_TRUE(UsageBatch::Decode(out.bytes()).ok());
    records += batch.records.size();
  }
  EXPECT_EQ(records, 600U);
  EXPECT_EQ(batches[0].records[5].owners, "");
  EXPECT_TRUE(UsageSince(&now, now, 2).at(0).records.at(0).sums.busy_us == 0);
}

}  // namespace
}  // namespace tessera
