// What a broker counts: by vGPU, as long as that is there, whoever had sessions in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "protocol/base/clock.h"
#include "scheduler/vgpu_state.h"
#include "server/broker/metrics.h"
#include "tests/server/broker/virtual_workers.h"

namespace tessera {
namespace {

constexpr int64_t kTestSecondNs = 1'000'000'000;

const VgpuMetrics& Of(const Metrics& metrics, std::string_view name) {
  for (const VgpuMetrics& vgpu : metrics.vgpus) {
    if (vgpu.name == name) return vgpu;
  }
  ADD_FAILURE() << name << " is not there";
  return metrics.vgpus.front();
}

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(server_
                  .TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.6\nowners = ['uid:7', 'name:x']\n"
                            "[[vgpu]]\nname = 'b'\nrequest = 0.3\n")
                  .code,
              StatusCode::kOk);
  }
  Metrics Now() { return MetricsOf(server_.broker(), server_.now_ns()); }
  static void Did(VirtualWorker& worker, uint64_t kernels, uint64_t graphs, uint64_t to, uint64_t from) {
    ReportPage::Row& row = worker.pages->report().rows[0];
    row.did_kernels = kernels;
    row.did_graphs = graphs;
    row.did_bytes_to = to;
    row.did_bytes_from = from;
  }

  VirtualServer server_{{}, 1};
};

TEST_F(MetricsTest, TwoThatShareAreBilledAsTheyRan) {
  VirtualWorker& a = server_.Begin("a");
  VirtualWorker& b = server_.Begin("b");
  a.greedy = b.greedy = true;
  server_.RunFor(3 * kTestSecondNs);
  const Metrics metrics = Now();
  EXPECT_NEAR(Of(metrics, "a").busy_s, static_cast<double>(a.used_ns) / 1e9, 0.1);
  EXPECT_NEAR(Of(metrics, "b").busy_s, static_cast<double>(b.used_ns) / 1e9, 0.1);
  EXPECT_GT(Of(metrics, "b").waited_s, 1);
  EXPECT_GT(Of(metrics, "a").grants, 100U);
  EXPECT_NEAR(Of(metrics, "a").used_10s, static_cast<double>(a.used_ns) / 1e10,
              0.01);  // of ten seconds, of which three have passed
  EXPECT_EQ(Of(metrics, "a").sessions, 1U);
  EXPECT_EQ(Of(metrics, "a").owners, "uid:7,name:x");
  EXPECT_EQ(Of(metrics, "b").owners, "*");
  EXPECT_EQ(Of(metrics, "default").owners, "");
  const GpuMetrics& gpu = metrics.gpus.at(0);
  EXPECT_GT(gpu.in_mode_s[static_cast<size_t>(GpuMode::kMetered)], 2.5);
  EXPECT_NEAR(gpu.busy_s, Of(metrics, "a").busy_s + Of(metrics, "b").busy_s, 0.01);
  uint64_t changes = 0;
  for (const uint64_t count : gpu.hand_overs.counts) changes += count;
  EXPECT_GT(changes, 100U);
  EXPECT_LT(static_cast<double>(gpu.hand_overs.sum_ns) / static_cast<double>(changes), 2e6);
}

// A worker says what it likes: what is shown is bounded, and what counts is the sum.
TEST_F(MetricsTest, KindsOfMemoryAddUpToWhatIsHeld) {
  VirtualWorker& worker = server_.Begin("a");
  ReportPage::Row& row = worker.pages->report().rows[0];
  const auto kind = [&](MemoryKind one) -> std::atomic<uint64_t>& { return row.memory_by_kind[static_cast<size_t>(one)]; };
  row.memory_held = 1000;
  kind(MemoryKind::kAllocations) = 700;
  kind(MemoryKind::kImports) = 300;
  MemoryByKind told = Of(Now(), "a").memory_held_by_kind;
  EXPECT_EQ(told, (MemoryByKind{700, 0, 0, 0, 0, 0, 300, 0}));
  kind(MemoryKind::kPools) = UINT64_MAX;
  kind(MemoryKind::kContexts) = UINT64_MAX;
  told = Of(Now(), "a").memory_held_by_kind;
  EXPECT_EQ(told, (MemoryByKind{700, 300, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Of(Now(), "a").memory_held_bytes, 1000u);
}

TEST_F(MetricsTest, WhatSessionsDidOutlivesThem) {
  VirtualWorker& first = server_.Begin("a");
  Did(first, 10, 1, 1000, 100);
  EXPECT_EQ(Of(Now(), "a").work.kernels, 10);
  Did(first, 12, 2, 3000, 500);
  server_.End(first);
  EXPECT_EQ(Of(Now(), "a").work.kernels, 12);
  VirtualWorker& second = server_.Begin("a");
  Did(second, 5, 0, 0, 0);
  const VgpuMetrics sum = Of(Now(), "a");
  EXPECT_EQ(sum.work.kernels, 17);
  EXPECT_EQ(sum.work.graphs, 2);
  EXPECT_EQ(sum.work.bytes_to, 3000);
  EXPECT_EQ(sum.work.bytes_from, 500);
  EXPECT_EQ(Of(Now(), "b").work.kernels, 0);
}

TEST_F(MetricsTest, AWorkerThatGoesBackAddsNothing) {
  VirtualWorker& worker = server_.Begin("a");
  Did(worker, UINT64_MAX, 0, 0, 0);
  const double most = Of(Now(), "a").work.kernels;
  Did(worker, 3, 0, 0, 0);
  EXPECT_EQ(Of(Now(), "a").work.kernels, most);
  Did(worker, UINT64_MAX, 0, 0, 0);
  EXPECT_GT(Of(Now(), "a").work.kernels, most);  // it lies to its own vGPU, and overflows nothing
}

TEST_F(MetricsTest, OneAloneIsActiveAndNotBilled) {
  VirtualWorker& worker = server_.Begin("a");
  for (int tenth = 0; tenth < 20; ++tenth) {
    worker.pages->report().executed += tenth < 10 ? 1 : 0;
    server_.RunFor(kTestSecondNs / 10);
  }
  const Metrics metrics = Now();
  EXPECT_NEAR(Of(metrics, "a").active_s, 1, 0.21);
  EXPECT_EQ(Of(metrics, "a").busy_s, 0);
  EXPECT_NEAR(metrics.gpus[0].in_mode_s[static_cast<size_t>(GpuMode::kFree)], 2, 0.1);
}

TEST_F(MetricsTest, FindingsOfTheAuditAreTheVgpus) {
  VirtualWorker& worker = server_.Begin("b");
  const auto found = [&](uint64_t session, uint32_t device) {
    return server_.broker().Take(AsReceived(FoundMessage{session, device, FoundMessage::What::kTime}), server_.now_ns());
  };
  EXPECT_TRUE(found(worker.number, 0).ok());
  EXPECT_TRUE(found(worker.number, 1).ok());  // there is no such GPU
  EXPECT_TRUE(found(worker.number + 1, 0).ok());
  const FoundMessage memory{worker.number, 0, FoundMessage::What::kMemory};
  EXPECT_TRUE(server_.broker().Take(AsReceived(memory), server_.now_ns()).ok());
  EXPECT_TRUE(server_.broker().Take(AsReceived(memory), server_.now_ns()).ok());
  EXPECT_EQ(Of(Now(), "b").audit_findings, 1U);
  EXPECT_EQ(Of(Now(), "b").audit_memory_findings, 2U);
  EXPECT_EQ(Of(Now(), "a").audit_findings, 0U);
}

// Tokens wait meanwhile.
TEST(MetricsCost, OfManyVgpusIsSmall) {
  std::string text;
  for (int i = 0; i < 250; ++i) text += "[[vgpu]]\nname = 'v" + std::to_string(i) + "'\nrequest = 0.001\nowners = ['uid:1']\n";
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile(text).code, StatusCode::kOk);
  for (int i = 0; i < 100; ++i) server.Begin("v" + std::to_string(i));
  int64_t least_ns = INT64_MAX;
  for (int i = 0; i < 50; ++i) {
    const auto begin_ns = static_cast<int64_t>(MonotonicNs());
    EXPECT_EQ(MetricsOf(server.broker(), server.now_ns()).vgpus.size(), 251U);
    least_ns = std::min(least_ns, static_cast<int64_t>(MonotonicNs()) - begin_ns);
  }
  printf("of 250 vGPUs and 100 sessions: %.0f us\n", static_cast<double>(least_ns) / 1e3);
  EXPECT_LT(least_ns, 5'000'000);  // under sanitizers, too
}

}  // namespace
}  // namespace tessera
