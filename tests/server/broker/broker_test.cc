// Shares, sessions and sets of tokens of the broker, in virtual time.
#include "server/broker/broker.h"

#include <gtest/gtest.h>

#include "protocol/base/small_file.h"
#include "scheduler/simulate/replay.h"
#include "tests/server/broker/broker_fixture.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

TEST(Broker, SharesComeOutAsRequested) {
  Pair pair(true);
  auto& [server, a, b] = pair;
  server.RunFor(1'000 * kMs);
  const int64_t before_ns = b->used_ns;
  EXPECT_NEAR(ShareOf(server, *a, 2'000 * kMs), 0.695, 0.03);
  EXPECT_NEAR(static_cast<double>(b->used_ns - before_ns) / 2e9, 0.305, 0.03);
  ASSERT_EQ(server.figures().sharings.size(), 1u);
  EXPECT_EQ(server.figures().sharings[0].mode, "metered");
  double got = 0;
  for (const ServerReport::Vgpu& vgpu : server.figures().vgpus) got += vgpu.got_1s;
  EXPECT_NEAR(got, 1, 0.05);
}

TEST(Broker, WhatWorkersReportIsToldOnceASecond) {
  Pair pair(true);
  auto& [server, a, b] = pair;
  server.RunFor(2'000 * kMs);
  a->pages->report().rows[0].memory_held = 5'000;
  const size_t before = server.reported().size();
  const int64_t a_used_ns = a->used_ns;
  server.RunFor(3'000 * kMs);
  const std::vector<ReportedMessage>& told = server.reported();
  ASSERT_EQ(told.size(), before + 3);
  const ReportedMessage &first = told[before - 1], &last = told.back();
  ASSERT_EQ(last.rows.size(), 2u);
  EXPECT_EQ(last.at_ns - first.at_ns, 3'000u * kMs);
  EXPECT_EQ(last.rows[0].session, a->number);
  EXPECT_EQ(last.rows[0].held_bytes, 5'000u);
  EXPECT_EQ(last.rows[1].held_bytes, 0u);
  EXPECT_NEAR(static_cast<double>(last.rows[0].watched_ns - first.rows[0].watched_ns), 3e9, 3e7);
  EXPECT_NEAR(static_cast<double>(last.rows[0].busy_ns - first.rows[0].busy_ns), static_cast<double>(a->used_ns - a_used_ns),
              9e7);
  // Armed: from one look to the next.
  b->greedy = false;
  server.RunFor(4'000 * kMs);
  const ReportedMessage armed = told.back();
  server.RunFor(1'000 * kMs);
  EXPECT_EQ(a->pages->Word().mode, GateMode::kArmed);
  EXPECT_NEAR(static_cast<double>(told.back().rows[0].busy_ns - armed.rows[0].busy_ns), 1e9, 3e7);
  EXPECT_EQ(told.back().rows[1].busy_ns, armed.rows[1].busy_ns);
  // Free: nothing.
  server.End(*b);
  server.RunFor(1'000 * kMs);
  const size_t all = told.size();
  server.RunFor(2'000 * kMs);
  EXPECT_EQ(told.size(), all);
}

TEST(Broker, DefaultAloneIsFree) {
  VirtualServer server({}, 1);
  VirtualWorker& worker = server.Begin("");
  VirtualWorker& other = server.Begin("");
  worker.greedy = other.greedy = true;
  const int64_t before = server.turns();
  server.RunFor(1'000 * kMs);
  EXPECT_EQ(worker.pages->Word().mode, GateMode::kFree);
  EXPECT_EQ(worker.pages->gate().closed_rows, 0u);
  EXPECT_LE(server.turns() - before, 12);  // a tick each 100 ms, and nothing else
  EXPECT_EQ(server.alive_messages(), 10u);
  EXPECT_GE(worker.pages->gate().alive_ns, static_cast<uint64_t>(server.now_ns() - 100 * kMs));
}

TEST(Broker, ANewcomerMakesItMetered) {
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  VirtualWorker& a = server.Begin("a");
  a.greedy = true;
  server.RunFor(500 * kMs);
  EXPECT_EQ(a.pages->Word().mode, GateMode::kFree);
  VirtualWorker& b = server.Begin("b");
  EXPECT_EQ(a.pages->Word().mode, GateMode::kArmed);
  EXPECT_EQ(a.pages->gate().closed_rows, 1u);
  server.RunFor(100 * kMs);
  EXPECT_EQ(a.pages->Word().mode, GateMode::kArmed);
  b.greedy = true;
  server.RunFor(5 * kMs);
  EXPECT_EQ(a.pages->Word().mode, GateMode::kMetered);
  EXPECT_EQ(b.pages->Word().mode, GateMode::kMetered);
  b.greedy = false;
  server.RunFor(1'100 * kMs);
  EXPECT_EQ(a.pages->Word().mode, GateMode::kArmed);
  server.End(b);
  EXPECT_EQ(a.pages->Word().mode, GateMode::kFree);
  EXPECT_EQ(a.pages->gate().closed_rows, 0u);
}

TEST(Broker, WhoEndsLeavesItsTokenAtOnce) {
  Pair pair(true);
  auto& [server, a, b] = pair;
  VirtualWorker& c = server.Begin("");
  c.greedy = true;
  server.RunFor(500 * kMs);
  while (!a->IsOpen(server.now_ns())) server.RunFor(VirtualServer::kStepNs);
  server.End(*a);
  EXPECT_TRUE(b->IsOpen(server.now_ns()) || c.IsOpen(server.now_ns()));
}

TEST(Broker, OneThatNeverEndsIsEndedWhereItsFileSaysSo) {
  for (const std::string overrun : {"bill", "end"}) {
    VirtualServer server({.overrun_after_ns = 2'000 * kMs}, 1);
    ASSERT_EQ(
        server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\noverrun='" + overrun + "'\n[[vgpu]]\nname='b'\nrequest=0.4\n").code,
        StatusCode::kOk);
    VirtualWorker& a = server.Begin("a");
    VirtualWorker& b = server.Begin("b");
    a.kernel_ns = 60'000 * kMs;
    a.greedy = true;
    server.RunFor(3'000 * kMs);
    EXPECT_NE(a.pages->Word().mode, GateMode::kEnded);  // nobody waits for it
    b.greedy = true;
    server.RunFor(1'900 * kMs);
    EXPECT_EQ(a.pages->Word().mode, GateMode::kMetered);
    server.RunFor(4'000 * kMs);  // some of the time it has a token
    EXPECT_EQ(a.pages->Word().mode, overrun == "end" ? GateMode::kEnded : GateMode::kMetered);
    EXPECT_NE(b.pages->Word().mode, GateMode::kEnded);
  }
}

// Sessions.

TEST(Broker, SessionsWithoutNameAreSeenOnceTheyHaveBegun) {
  VirtualServer server({}, 2);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\ngpu=1\n").code, StatusCode::kOk);
  VirtualWorker& named = server.Begin("a");
  VirtualWorker& worker = server.Begin("", 0);
  server.RunFor(50 * kMs);
  EXPECT_EQ(named.pages->Word(1).mode, GateMode::kFree);
  worker.pages->report().visible_rows = 0xfffffffe;  // GPU 1, and some that there are not
  server.RunFor(100 * kMs);                          // it has not rung
  EXPECT_EQ(worker.pages->Word(0).mode, GateMode::kFree);
  EXPECT_EQ(worker.pages->Word(1).mode, GateMode::kArmed);
  EXPECT_EQ(named.pages->Word(1).mode, GateMode::kArmed);
  EXPECT_EQ(worker.pages->gate().closed_rows, 2u);
  VirtualWorker& prompt = server.Begin("", 0);
  prompt.pages->report().visible_rows = 2;
  server.broker().Ring(prompt.number, server.now_ns());
  server.Turn();
  EXPECT_EQ(prompt.pages->Word(1).mode, GateMode::kArmed);
}

// A worker wakes the broker when it waits and when it rests, not when it begins: what runs is known at each decision all the
// same.
TEST(Broker, WhatRunsIsBilledFromItsBeginning) {
  for (const int64_t kernel_ns : {kMs / 2, 3 * kMs, 9 * kMs}) {
    VirtualServer server({}, 1);
    ASSERT_EQ(server.TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.2\nlimit = 0.3\n").code, StatusCode::kOk);
    VirtualWorker& worker = server.Begin("a");
    worker.greedy = true;
    worker.kernel_ns = kernel_ns;
    server.RunFor(1'000 * kMs);
    EXPECT_NEAR(ShareOf(server, worker, 5'000 * kMs), 0.3, 0.01) << kernel_ns;
  }
}

TEST(Broker, WithoutDefaultNobodyIsInIt) {
  VirtualServer server({.policies = {}, .has_default = false}, 1);
  const char* whole = "[[vgpu]]\nname='a'\nrequest=0.7\n[[vgpu]]\nname='b'\nrequest=0.3\n";
  ASSERT_EQ(server.TakeFile(whole).code, StatusCode::kOk);
  EXPECT_EQ(server.TakeFile("[[vgpu]]\nname='c'\n").code, StatusCode::kInvalidArgument);
  server.Begin("a");
  VirtualWorker& worker = server.Begin("");
  EXPECT_EQ(worker.pages->gate().closed_rows, 0u);
  EXPECT_EQ(server.broker().sessions(), 2u);
}

TEST(Broker, StaticSlotsAreOfAllVgpus) {
  Pair pair(false);
  auto& [server, a, b] = pair;
  const GatePage::Row& of_a = a->pages->gate().rows[0];
  const GatePage::Row& of_b = b->pages->gate().rows[0];
  EXPECT_NEAR(static_cast<double>(of_a.slot_length_ns), 69e6, 1e3);
  EXPECT_NEAR(static_cast<double>(of_b.slot_length_ns), 30e6, 1e3);
  EXPECT_GE(of_b.slot_begin_ns, of_a.slot_begin_ns + of_a.slot_length_ns);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='b'\nrequest=0.99\n").code, StatusCode::kOk);
  EXPECT_NEAR(static_cast<double>(of_b.slot_length_ns), 99e6, 1e4);
}

TEST(Broker, ABrokerThatWasStartedAnewGoesOn) {
  Pair pair(true);
  auto& [server, a, b] = pair;
  server.RunFor(1'000 * kMs);
  server.Restart();
  // A row of before: more than a token, and busy since for ever.
  a->pages->gate().rows[0].gate = GateWord{GateMode::kMetered, true, UINT64_MAX}.Pack();
  a->pages->report().rows[0].busy_since_ns = 16;
  server.Tell(*a, "a");  // the file comes later
  EXPECT_EQ(a->pages->Word().mode, GateMode::kFree);
  server.Tell(*b, "b");
  ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  server.RunFor(10 * kMs);
  EXPECT_EQ(a->pages->Word().mode, GateMode::kMetered);
  for (const VgpuId vgpu : server.gpu().time().vgpus()) {
    EXPECT_LE(server.gpu().time().ledger().BilledNs(vgpu), 10 * kMs) << vgpu;
  }
  const int64_t before_ns = b->used_ns;
  server.RunFor(500 * kMs);
  EXPECT_NEAR(ShareOf(server, *a, 1'500 * kMs), 0.695, 0.03);
  EXPECT_GT(b->used_ns, before_ns);
}

TEST(Broker, WhoRingsWithoutEndIsLookedAtLess) {
  Pair pair(false);
  auto& [server, a, b] = pair;
  for (uint32_t i = 0; i < 10 * Broker::kRingsMax; ++i) server.broker().Ring(a->number, server.now_ns());
  server.Turn();
  server.RunFor(300 * kMs);
  EXPECT_EQ(server.broker().sessions(), 2u);
  server.broker().Ring(12345, server.now_ns());  // one that is not there
}

TEST(Broker, PagesThatCannotBeMappedHaveNoShare) {
  VirtualServer server({}, 1);
  const UniqueFd shrinks = TextFile(std::string(1 << 16, 'x'));
  const UniqueFd small = CreateSegmentFile("tessera-small", kPageBytes).value();
  const TestPages good;
  const std::vector<int> fds = good.Fds(server.process());
  for (const std::vector<int>& bad :
       {std::vector<int>{shrinks.get(), fds[1], fds[2], fds[3]}, std::vector<int>{fds[0], small.get(), fds[2], fds[3]},
        std::vector<int>{fds[0], fds[1], small.get(), fds[3]}}) {
    EXPECT_TRUE(server.broker().Take(AsReceived(CameMessage{1, 1, ""}, bad), server.now_ns()).ok());
    EXPECT_EQ(server.broker().sessions(), 0u);
  }
  EXPECT_EQ(server.broker().Take(AsReceived(CameMessage{1, 1, ""}, {fds[0]}), server.now_ns()).code(),
            StatusCode::kProtocolViolation);
  EXPECT_EQ(server.broker().Take(AsReceived(AliveMessage()), server.now_ns()).code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(server.broker().Take(AsReceived(TestGpus(1)), server.now_ns()).code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(server.broker().Take(SocketMessage(), server.now_ns()).code(), StatusCode::kProtocolViolation);
}

// Sets of tokens.

constexpr const char* kTwoOfTwo =
    "[[vgpu]]\nname='a0'\nrequest=0.45\n[[vgpu]]\nname='a1'\nrequest=0.45\ngpu=1\n"
    "[[vgpu]]\nname='b0'\nrequest=0.45\n[[vgpu]]\nname='b1'\nrequest=0.45\ngpu=1\n";

// Two sessions on two GPUs, which they use in one order or crosswise.
TEST(Broker, SessionsOnTwoGpusGetBothTokensTogether) {
  for (const bool crosswise : {false, true}) {
    const std::string path = testing::TempDir() + "tessera_broker_sets_" + std::to_string(getpid());
    int64_t apart_ns = 0;
    {
      VirtualServer server({.record = path}, 2);
      ASSERT_EQ(server.TakeFile(kTwoOfTwo).code, StatusCode::kOk);
      VirtualWorker& a = server.Begin("a0+a1", 3);
      VirtualWorker& b = server.Begin("b0+b1", 3);
      a.lockstep = {0, 1};
      b.lockstep = crosswise ? std::vector<size_t>{1, 0} : std::vector<size_t>{0, 1};
      a.greedy = b.greedy = true;
      server.RunFor(500 * kMs);
      const int64_t before[] = {a.steps, b.steps};
      for (const int64_t end_ns = server.now_ns() + 2'000 * kMs; server.now_ns() < end_ns;) {
        server.RunFor(VirtualServer::kStepNs);
        for (VirtualWorker* worker : {&a, &b}) {
          if (worker->IsOpen(server.now_ns(), 0) != worker->IsOpen(server.now_ns(), 1)) apart_ns += VirtualServer::kStepNs;
        }
      }
      EXPECT_NEAR(static_cast<double>(a.steps - before[0]), 2'000, 150) << crosswise;
      EXPECT_NEAR(static_cast<double>(b.steps - before[1]), 2'000, 150) << crosswise;
      EXPECT_LE(apart_ns, 100 * kMs) << crosswise;
      // It goes on alone when one of them works on one GPU no more, and after the other has gone.
      a.lockstep = {0};
      a.launched = 0;
      server.RunFor(1'300 * kMs);
      server.End(b);
      server.RunFor(50 * kMs);
      EXPECT_TRUE(a.IsOpen(server.now_ns(), 0));
    }
    for (const std::string& gpu : {path + ".0", path + ".1"}) {
      const Result<std::string> text = ReadSmallFile(gpu, 1 << 24);
      ASSERT_TRUE(text.ok()) << text.status().message();
      EXPECT_NE(text.value().find(" grant "), std::string::npos);
      const Result<SchedulerTrace> trace = ParseTrace(text.value());
      ASSERT_TRUE(trace.ok()) << trace.status().message();
      const Result<Replayed> replayed = Replay(trace.value());
      ASSERT_TRUE(replayed.ok()) << replayed.status().message();
      EXPECT_EQ(replayed.value().difference, std::nullopt);
      unlink(gpu.c_str());
    }
  }
}

TEST(Broker, RecordsWhatIsReplayedBitForBit) {
  const std::string path = testing::TempDir() + "tessera_broker_record_" + std::to_string(getpid());
  {
    VirtualServer server({.policies = {{"", "priority"}}, .has_default = true, .default_request = 0, .record = path}, 2);
    ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
    VirtualWorker& a = server.Begin("a");
    VirtualWorker& b = server.Begin("b");
    VirtualWorker& c = server.Begin("");
    a.greedy = b.greedy = c.greedy = true;
    server.RunFor(400 * kMs);
    ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='b'\nrequest=0.6\n").code, StatusCode::kOk);
    server.RunFor(100 * kMs);
    server.End(a);
    server.RunFor(100 * kMs);
  }
  const Result<std::string> text = ReadSmallFile(path + ".0", 1 << 24);
  ASSERT_TRUE(text.ok()) << text.status().message();
  Result<SchedulerTrace> trace = ParseTrace(text.value());
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->policy, "priority");
  EXPECT_GT(trace->events.size(), 500u);
  Result<Replayed> replayed = Replay(trace.value());
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  EXPECT_EQ(replayed->difference, std::nullopt);
  for (const char* gpu : {".0", ".1"}) unlink((path + gpu).c_str());
}

}  // namespace
}  // namespace tessera
