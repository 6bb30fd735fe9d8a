// What is told of metrics, and what of HTTP is understood.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/broker/metrics/http_request.h"
#include "server/broker/metrics/metrics_text.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Metrics Example() {
  Metrics metrics;
  GpuMetrics gpu;
  gpu.gpu = "GPU-1";
  gpu.in_mode_s = {1, 2, 4};
  gpu.busy_s = 3;
  gpu.hand_overs.Add(60'000);
  gpu.hand_overs.Add(1'000'000'000);
  metrics.gpus.push_back(gpu);
  VgpuMetrics vgpu;
  vgpu.name = "train";
  vgpu.gpu = "GPU-1";
  vgpu.busy_s = 2.5;
  vgpu.work.kernels = 12345678;
  vgpu.memory_limit_bytes = 1 << 20;
  vgpu.memory_held_by_kind[static_cast<size_t>(MemoryKind::kPools)] = 4096;
  metrics.vgpus.push_back(vgpu);
  vgpu.name = "other";
  vgpu.memory_limit_bytes = 0;
  metrics.vgpus.push_back(vgpu);
  return metrics;
}

TEST(MetricsText, HasHelpTypeAndLabels) {
  const std::string text = MetricsText(Example(), nullptr, 3);
  EXPECT_THAT(text, HasSubstr("# HELP tessera_vgpu_busy_seconds_total "));
  EXPECT_THAT(text, HasSubstr("# TYPE tessera_vgpu_busy_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("tessera_vgpu_busy_seconds_total{vgpu=\"train\",gpu=\"GPU-1\"} 2.5\n"));
  EXPECT_THAT(text, HasSubstr("tessera_vgpu_kernel_launches_total{vgpu=\"train\",gpu=\"GPU-1\"} 12345678\n"));
  EXPECT_THAT(text, HasSubstr("tessera_gpu_mode_seconds_total{gpu=\"GPU-1\",mode=\"metered\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("tessera_vgpu_memory_kind_bytes{vgpu=\"train\",gpu=\"GPU-1\",kind=\"pools\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("tessera_vgpu_memory_kind_bytes{vgpu=\"train\",gpu=\"GPU-1\",kind=\"contexts\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("tessera_broker_restarts_total 3\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE tessera_gpu_hand_over_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("tessera_gpu_hand_over_seconds_count{gpu=\"GPU-1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tessera_gpu_hand_over_seconds_bucket{gpu=\"GPU-1\",le=\"0.0001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tessera_gpu_hand_over_seconds_bucket{gpu=\"GPU-1\",le=\"+Inf\"} 2\n"));
}

TEST(MetricsText, LeavesOutWhatThereIsNot) {
  Metrics now = Example();
  EXPECT_THAT(MetricsText(now, nullptr, 0), HasSubstr("tessera_vgpu_memory_limit_bytes{vgpu=\"train\""));
  EXPECT_THAT(MetricsText(now, nullptr, 0), Not(HasSubstr("tessera_vgpu_memory_limit_bytes{vgpu=\"other\"")));
  EXPECT_THAT(MetricsText(now, nullptr, 0), Not(HasSubstr("tessera_gpu_busy_ratio")));
  EXPECT_THAT(MetricsText(now, &now, 0), Not(HasSubstr("tessera_gpu_busy_ratio")));  // nothing was metered meanwhile
  const Metrics before = now;
  now.gpus[0].in_mode_s[2] += 2;
  now.gpus[0].busy_s += 1;
  EXPECT_THAT(MetricsText(now, &before, 0), HasSubstr("tessera_gpu_busy_ratio{gpu=\"GPU-1\"} 0.5\n"));
}

TEST(HttpRequest, IsReadPieceByPiece) {
  const std::string request = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size = 0; size < request.size(); ++size)
    EXPECT_EQ(ReadHttpRequest(request.substr(0, size)), HttpNeed::kMore) << size;
  EXPECT_EQ(ReadHttpRequest(request), HttpNeed::kMetrics);
  EXPECT_EQ(ReadHttpRequest("HEAD /metrics HTTP/1.0\r\n\r\n"), HttpNeed::kHeadOnly);
  EXPECT_EQ(ReadHttpRequest("GET /metric HTTP/1.1\r\n\r\n"), HttpNeed::kElsewhere);
  EXPECT_EQ(ReadHttpRequest("POST /metrics HTTP/1.1\r\n\r\n"), HttpNeed::kMethod);
  EXPECT_EQ(ReadHttpRequest("GET /metrics\r\n\r\n"), HttpNeed::kGarbage);
  EXPECT_EQ(ReadHttpRequest("\r\n\r\n"), HttpNeed::kGarbage);
  EXPECT_EQ(ReadHttpRequest("get /metrics"), HttpNeed::kGarbage);
  EXPECT_EQ(ReadHttpRequest(std::string("\x16\x03\x01\x02\x00", 5)), HttpNeed::kGarbage);  // TLS
  EXPECT_EQ(ReadHttpRequest("GET /" + std::string(kHttpRequestBytesMax, 'x')), HttpNeed::kTooLong);
}

TEST(HttpRequest, AnyBytesAreSomething) {
  std::mt19937 random(1);
  const std::string parts[] = {"GET", " ", "/metrics", "HTTP/1.1", "\r\n", "\r\n\r\n", "\n", std::string(1, '\0'), "\xff"};
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    for (int count = static_cast<int>(random() % 12); count > 0; --count) bytes += parts[random() % std::size(parts)];
    const std::string answer = HttpAnswer(ReadHttpRequest(bytes), "m 1\n");
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 "));
  }
}

TEST(HttpRequest, AnswersHaveTheirLength) {
  const std::string answer = HttpAnswer(HttpNeed::kMetrics, "m 1\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\nConnection: close\r\n\r\nm 1\n"));
  EXPECT_THAT(HttpAnswer(HttpNeed::kHeadOnly, "m 1\n"), HasSubstr("Content-Length: 4\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(HttpAnswer(HttpNeed::kHeadOnly, "m 1\n"), Not(HasSubstr("m 1")));
  EXPECT_THAT(HttpAnswer(HttpNeed::kMethod, ""), HasSubstr("Allow: GET, HEAD\r\n"));
}

}  // namespace
}  // namespace tessera
