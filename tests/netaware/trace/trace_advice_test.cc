// Each row of the table of advices, once where it applies and once where it does not.
#include "netaware/trace/trace_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace tessera {
namespace {

// A program that leaves nothing to be wished: a busy thread, and a GPU that is busy for half of the time.
TraceSummary Fine() {
  TraceSummary summary;
  summary.wall_ns = 1e9;
  summary.gpu_ns = 5e8;
  summary.thread = "main";
  summary.program_ns = 3e8;
  summary.gpu_wait_ns = 6e8;
  summary.launches = summary.launch_calls = 500;
  summary.kernels = {{"gemm", "", 500, 5e8}};
  return summary;
}

void Expect(const std::string& id, const std::string& part, const std::function<void(TraceSummary*)>& change) {
  TraceSummary summary = Fine();
  const auto is_it = [&](const TraceAdvice& advice) { return advice.id == id; };
  EXPECT_TRUE(std::ranges::none_of(AdviceFor(summary), is_it)) << id;
  change(&summary);
  const auto advices = AdviceFor(summary);
  const auto found = std::ranges::find_if(advices, is_it);
  ASSERT_NE(found, advices.end()) << id;
  EXPECT_NE(found->text.find(part), std::string::npos) << found->text;
  EXPECT_TRUE(found->text.ends_with('.')) << found->text;
}

void WaitIn(TraceSummary* summary, const char* function, double ns) { summary->functions = {{function, "main", 100, ns}}; }

TEST(TraceAdvice, NothingStandsOut) {
  const auto advices = AdviceFor(Fine());
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].id, "nothing");
}

TEST(TraceAdvice, EachRow) {
  Expect("events-lost", "7 events", [](auto* s) { s->events_lost = 7; });
  Expect("launch-blocking", "CUDA_LAUNCH_BLOCKING", [](auto* s) { s->waiting_launches = 400; });
  Expect("polling", "cuEventQuery (100 calls, 60.0 ms)", [](auto* s) { WaitIn(s, "cuEventQuery", 6e7); });
  Expect("read-back", "cuMemcpyDtoH_v2 (100 calls, 200.0 ms)", [](auto* s) { WaitIn(s, "cuMemcpyDtoH_v2", 2e8); });
  Expect("synchronise", "cuStreamSynchronize", [](auto* s) { WaitIn(s, "cuStreamSynchronize", 2e8); });
  Expect("allocating", "cuMemAlloc_v2", [](auto* s) { WaitIn(s, "cuMemAlloc_v2", 6e7); });
  Expect("loading", "cuModuleLoadData", [](auto* s) { WaitIn(s, "cuModuleLoadData", 2e8); });
  Expect("short-kernels", "2000 launches take 5.0 us each", [](auto* s) {
    s->launches = 2000;
    s->kernels = {{"relu", "", 2000, 1e7}};
  });
  Expect("server", "tessera top", [](auto* s) { s->server_ns = 2e8; });
  Expect("way", "takes 200.0 us of each of 1000 round trips", [](auto* s) {
    s->way_ns = 2e8;
    s->round_trips = 1000;
    s->over_link = true;
  });
  Expect("way", "Waiting 1000 times for the server's process takes 200.0 ms", [](auto* s) {
    s->way_ns = 2e8;
    s->round_trips = 1000;
  });
  Expect("program", "Thread main", [](auto* s) { s->program_ns = 5e8; });
  Expect("gpu", "make gemm faster", [](auto* s) { s->gpu_ns = 8e8; });
  Expect("no-launches", "launched nothing", [](auto* s) { s->launch_calls = 0; });
}

TEST(TraceAdvice, WhatMakesTheRestDoubtfulComesFirst) {
  TraceSummary summary = Fine();
  summary.gpu_ns = 8e8;
  summary.events_lost = 1;
  EXPECT_EQ(AdviceFor(summary).front().id, "events-lost");
}

}  // namespace
}  // namespace tessera
