// The broker in virtual time.
#include "server/broker/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/base/small_file.h"
#include "scheduler/simulate/replay.h"
#include "tests/server/broker/virtual_workers.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kSeventyThirty = R"(
[[vgpu]]
name = "a"
request = 0.69
[[vgpu]]
name = "b"
request = 0.3
)";

double ShareOf(VirtualServer& server, VirtualWorker& worker, int64_t length_ns) {
  const int64_t before_ns = worker.used_ns;
  server.RunFor(length_ns);
  return static_cast<double>(worker.used_ns - before_ns) / static_cast<double>(length_ns);
}

// Two vGPUs, each with a session.
struct Pair {
  explicit Pair(bool greedy) {
    EXPECT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
    a = &server.Begin("a");
    b = &server.Begin("b");
    a->greedy = b->greedy = greedy;
  }
  VirtualServer server{{}, 1};
  VirtualWorker* a = nullptr;
  VirtualWorker* b = nullptr;
};

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

TEST(Broker, AProgramWithoutRoomForItsContextWaitsForIt) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  VirtualServer server({}, 1, 64 * kMib);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\nmemory='384MiB'\n").code, StatusCode::kOk);
  const AskMessage ask = {7, "a", "uid:5"};
  const auto full = [&]() -> VirtualWorker& {
    VirtualWorker& worker = server.Begin("a");
    worker.pages->report().rows[0].memory_held = 321 * kMib;
    return worker;
  };
  VirtualWorker& first = full();
  server.BeginToAsk(ask);
  server.RunFor(Broker::kRoomWaitNs - 200 * kMs);
  EXPECT_FALSE(server.answer().has_value());
  server.End(first);
  ASSERT_TRUE(server.answer().has_value());
  EXPECT_EQ(server.answer()->code, StatusCode::kOk);
  EXPECT_EQ(server.answer()->context_bytes, std::vector<uint64_t>{0});
  full();
  server.BeginToAsk(ask);
  server.RunFor(Broker::kRoomWaitNs + 200 * kMs);
  ASSERT_TRUE(server.answer().has_value());
  EXPECT_EQ(server.answer()->code, StatusCode::kOk) << "it begins without one, as on a card that is full";
  EXPECT_EQ(server.answer()->context_bytes, std::vector<uint64_t>{64 * kMib});
  server.BeginToAsk({8, "a", "uid:5", false});
  EXPECT_TRUE(server.answer().has_value()) << "a question needs no room";
  for (size_t i = 0; i < Broker::kWaitingMax; ++i) server.BeginToAsk(ask);
  EXPECT_FALSE(server.answer().has_value());
  server.BeginToAsk(ask);
  EXPECT_TRUE(server.answer().has_value()) << "so many do not wait";
}

// Whoever began without room counts its context itself, and has the room of one that has ended where it has made none yet.
TEST(Broker, AProgramThatBeganWithoutRoomCountsItsContext) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  VirtualServer server({}, 1, 64 * kMib);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\nmemory='384MiB'\n").code, StatusCode::kOk);
  const auto begin_without = [&]() -> VirtualWorker& {
    VirtualWorker& worker = server.Begin("a");
    worker.pages->gate().context_bytes[0] = 64 * kMib;
    return worker;
  };
  const auto held = [&] { return server.gpu().MemoryHeldBy(*server.gpu().FindVgpu("a")); };
  const auto contexts = [&] { return held().by_kind[static_cast<size_t>(MemoryKind::kContexts)]; };
  VirtualWorker& first = server.Begin("a");
  first.pages->report().rows[0].memory_held = 200 * kMib;
  VirtualWorker& second = begin_without();
  VirtualWorker& third = begin_without();
  server.RunFor(200 * kMs);
  EXPECT_EQ(held().bytes, 200 * kMib) << "neither has a context";
  EXPECT_EQ(second.pages->gate().context_bytes[0], 64 * kMib);
  // The second makes one.
  second.pages->report().rows[0].memory_by_kind[static_cast<size_t>(MemoryKind::kContexts)] = 64 * kMib;
  second.pages->report().rows[0].memory_held = 64 * kMib;
  EXPECT_EQ(held().bytes, 264 * kMib);
  EXPECT_EQ(contexts(), 64 * kMib);
  // What the first one's had is the third one's.
  server.End(first);
  EXPECT_EQ(second.pages->gate().context_bytes[0], 64 * kMib);
  EXPECT_EQ(third.pages->gate().context_bytes[0], 0u);
  EXPECT_EQ(held().bytes, 64 * kMib);
  // One more is of the limit, as ever.
  server.Begin("a");
  EXPECT_EQ(contexts(), 128 * kMib);
}

// A grant has room for the contexts of as many processes as its job asked for; one more takes what nobody was promised.
TEST(Broker, AGrantsFurtherProcessNeedsRoomBesideAllGrants) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  VirtualServer server({}, 1, 1024 * kMib);  // of 10 GiB
  const auto file = [&](const std::string& other) {
    return server
        .TakeFile("[[vgpu]]\nname='grant-1'\nmemory='1GiB'\nprocesses=2\n[[vgpu]]\nname='grant-2'\nmemory='" + other + "'\n")
        .code;
  };
  ASSERT_EQ(file("4GiB"), StatusCode::kOk);  // 3 and 5 of 10
  const auto code_of = [&](const AskMessage& ask) {
    server.BeginToAsk(ask);
    server.RunFor(Broker::kRoomWaitNs + 200 * kMs);
    return server.answer().has_value() ? server.answer()->code : StatusCode::kInternal;
  };
  const AskMessage ask = {7, "grant-1", "uid:5"};
  for (int i = 0; i < 2; ++i) {
    server.Begin("grant-1").pages->report().rows[0].memory_held = 512 * kMib;
  }
  EXPECT_EQ(server.gpu().MemoryHeldBy(*server.gpu().FindVgpu("grant-1")).bytes, 1024 * kMib) << "no context is of its limit";
  EXPECT_EQ(code_of(ask), StatusCode::kOk);
  server.Begin("grant-1");
  VirtualWorker& fourth = server.Begin("grant-1");
  EXPECT_EQ(code_of(ask), StatusCode::kResourceExhausted);
  EXPECT_THAT(server.answer()->sentence,
              HasSubstr("the job's 4 processes use the GPU, it asked for 2, and beside all grants 0 bytes "
                        "are left for one more's context of 1 GiB"));
  EXPECT_THAT(server.answer()->sentence, HasSubstr("'tessera run --processes'"));
  // What those beyond have is not there for others.
  EXPECT_EQ(file("5GiB"), StatusCode::kResourceExhausted);
  server.End(fourth);
  EXPECT_EQ(file("5GiB"), StatusCode::kOk);
  EXPECT_EQ(code_of(ask), StatusCode::kResourceExhausted);
}

// Those that may begin and are not there yet count.
TEST(Broker, ProcessesOfAGrantThatComeAtOnceHaveNoMoreRoom) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  VirtualServer server({}, 1, kGib);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='grant-1'\nmemory='8GiB'\n").code, StatusCode::kOk);
  for (uint64_t i = 0; i < 2; ++i) {
    server.BeginToAsk({i, "grant-1", "uid:5"});
    ASSERT_TRUE(server.answer().has_value());
    EXPECT_EQ(server.answer()->code, StatusCode::kOk);
  }
  server.BeginToAsk({2, "grant-1", "uid:5"});
  EXPECT_FALSE(server.answer().has_value());
}

// What is promised to one that comes is nobody else's.
TEST(Broker, ProcessesOfSeveralGrantsThatComeAtOnceHaveNoMoreRoom) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  VirtualServer server({}, 1, kGib);
  const std::string two = "[[vgpu]]\nname='grant-1'\nmemory='2GiB'\n[[vgpu]]\nname='grant-2'\nmemory='4GiB'\n";
  ASSERT_EQ(server.TakeFile(two).code, StatusCode::kOk);  // 3 and 5 of 10
  server.Begin("grant-1"), server.Begin("grant-2");
  const auto ask = [&](uint64_t id, const char* grant) {
    server.BeginToAsk({id, grant, "uid:5"});
    return server.answer().has_value();
  };
  EXPECT_TRUE(ask(1, "grant-1") && ask(2, "grant-1"));
  EXPECT_EQ(server.answer()->code, StatusCode::kOk);
  EXPECT_FALSE(ask(3, "grant-2"));
  EXPECT_EQ(server.TakeFile(two + "[[vgpu]]\nname='grant-3'\nmemory='512MiB'\n").code, StatusCode::kResourceExhausted);
  // They do not come: the room is the other's, which waits.
  server.RunFor(Broker::kPlaceKeptNs + 200 * kMs);
  ASSERT_TRUE(server.answer().has_value());
  EXPECT_EQ(server.answer()->code, StatusCode::kOk);
  server.Begin("grant-2");
  EXPECT_TRUE(ask(4, "grant-1"));
  EXPECT_FALSE(ask(5, "grant-2"));
}

TEST(Broker, AVgpuHasNoMoreSessionsThanItMayHave) {
  VirtualServer server({}, 1);
  const auto file = [&](const char* most) {
    return server.TakeFile(std::string("[[vgpu]]\nname='a'\nrequest=0.5\nmax_sessions=") + most + "\n[[vgpu]]\nname='b'\n").code;
  };
  ASSERT_EQ(file("2"), StatusCode::kOk);
  const AskMessage begins = {7, "a", "uid:5"};
  const AskMessage will_begin = {8, "a", "uid:5", false, true};
  const auto code_of = [&](const AskMessage& ask) {
    server.BeginToAsk(ask);
    server.RunFor(Broker::kRoomWaitNs + 200 * kMs);
    return server.answer().has_value() ? server.answer()->code : StatusCode::kInternal;
  };
  // Two that ask at once have both places before they come; the third waits, and gets one that nobody came for.
  server.BeginToAsk(begins);
  ASSERT_TRUE(server.answer().has_value());
  server.BeginToAsk(begins);
  ASSERT_TRUE(server.answer().has_value());
  server.BeginToAsk(begins);
  EXPECT_FALSE(server.answer().has_value());
  VirtualWorker& first = server.Begin("a");
  server.RunFor(Broker::kPlaceKeptNs + 200 * kMs);
  ASSERT_TRUE(server.answer().has_value());
  EXPECT_EQ(server.answer()->code, StatusCode::kOk);
  server.Begin("a");

  EXPECT_EQ(code_of(begins), StatusCode::kFull);
  EXPECT_THAT(server.answer()->sentence, HasSubstr("vGPU 'a' has 2 sessions, and may have 2 at a time"));
  EXPECT_EQ(code_of(will_begin), StatusCode::kFull);
  server.BeginToAsk({9, "a", "uid:5", false});
  EXPECT_TRUE(server.answer().has_value()) << "who only asks needs no place";
  server.BeginToAsk({10, "b", "uid:5"});
  EXPECT_TRUE(server.answer().has_value()) << "the others have no limit";

  // Lowered, it takes nobody away; raised, or with one less, there is a place.
  ASSERT_EQ(file("1"), StatusCode::kOk);
  EXPECT_EQ(server.broker().SessionsIn(0, "a"), 2u);
  server.End(first);
  EXPECT_EQ(code_of(begins), StatusCode::kFull);
  ASSERT_EQ(file("2"), StatusCode::kOk);
  EXPECT_EQ(code_of(will_begin), StatusCode::kOk);
  EXPECT_EQ(code_of(will_begin), StatusCode::kOk) << "a question keeps no place";
}

TEST(Broker, AnswersWhoMayBeginWhere) {
  VirtualServer server({}, 2);
  ASSERT_EQ(server
                .TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\n[[vgpu]]\nname='b'\ngpu=1\nowners=['uid:1000']\n"
                          "[[vgpu]]\nname='c'\ngpu=1\n")
                .code,
            StatusCode::kOk);
  EXPECT_THAT(server.Ask("a", "uid:5").rows, ElementsAre(0));
  EXPECT_THAT(server.Ask("b+a", "uid:1000").rows, ElementsAre(1, 0));
  const AskAnswer foreign = server.Ask("b", "uid:5");
  EXPECT_EQ(foreign.code, StatusCode::kPermissionDenied);
  EXPECT_THAT(foreign.rows, IsEmpty());
  AskAnswer unknown = server.Ask("x", "uid:5");
  EXPECT_EQ(unknown.code, StatusCode::kPermissionDenied);
  EXPECT_EQ(unknown.sentence.replace(unknown.sentence.find('x'), 1, "b"), foreign.sentence);
  const AskAnswer twice = server.Ask("b+c", "uid:1000");
  EXPECT_EQ(twice.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(twice.sentence, HasSubstr("'b' and 'c' are of one GPU"));
  EXPECT_EQ(server.Ask("b+c", "uid:5").sentence, foreign.sentence);  // not a word about what is another's
  for (const std::string& bad : {std::string(), std::string("a+"), std::string("+a"), std::string("default"),
                                 std::string("a\n\0b", 4), std::string(1024, 'n')}) {
    const AskAnswer answer = server.Ask(bad, "uid:1000");
    EXPECT_EQ(answer.code, StatusCode::kPermissionDenied) << bad;
    EXPECT_EQ(answer.sentence.find('\n'), std::string::npos);
    EXPECT_EQ(answer.sentence.find('\0'), std::string::npos);
  }
}

// Files.

TEST(Broker, AFileIsInForceAsAWholeOrNotAtAll) {
  VirtualServer server({}, 2);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\n").code, StatusCode::kOk);
  const VgpuFileAnswer answer =
      server.TakeFile("[[vgpu]]\nname='b'\nrequest=0.5\n[[vgpu]]\nname='c'\nrequest=0.5\n[[vgpu]]\nname='d'\ngpu=1\n");
  EXPECT_EQ(answer.code, StatusCode::kResourceExhausted);
  EXPECT_EQ(answer.sentence.find("vgpus.toml: line 4: vGPU 'c': request 0.5 is 0.01 too much"), 0u) << answer.sentence;
  EXPECT_EQ(server.Ask("a", "uid:0").code, StatusCode::kOk);
  EXPECT_EQ(server.Ask("b", "uid:0").code, StatusCode::kPermissionDenied);
  EXPECT_EQ(server.Ask("d", "uid:0").code, StatusCode::kPermissionDenied);
  EXPECT_EQ(server.gpu(0).time().vgpus().size(), 2u);
  EXPECT_EQ(server.gpu(1).time().vgpus().size(), 1u);
}

TEST(Broker, AChangedShareHoldsForSessionsThatAreThere) {
  Pair pair(true);
  auto& [server, a, b] = pair;
  server.RunFor(500 * kMs);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='b'\nrequest=0.69\n[[vgpu]]\nname='a'\nrequest=0.3\n").code, StatusCode::kOk);
  server.RunFor(2'000 * kMs);
  EXPECT_NEAR(ShareOf(server, *b, 1'000 * kMs), 0.695, 0.03);
}

TEST(Broker, WhoIsNotNamedAnyMoreGoesWithItsLastSession) {
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  VirtualWorker& a = server.Begin("a");
  VirtualWorker& c = server.Begin("");
  a.greedy = c.greedy = true;
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='d'\nrequest=0.4\n").code, StatusCode::kOk);
  EXPECT_EQ(server.Ask("a", "uid:0").code, StatusCode::kPermissionDenied);
  EXPECT_EQ(server.gpu().time().vgpus().size(), 3u);  // default, a, d
  server.RunFor(1'000 * kMs);
  EXPECT_NEAR(ShareOf(server, a, 1'000 * kMs), 0.59, 0.03);
  // It comes back with its sessions.
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.2\n").code, StatusCode::kOk);
  EXPECT_EQ(server.Ask("a", "uid:0").code, StatusCode::kOk);
  ASSERT_EQ(server.TakeFile("").code, StatusCode::kOk);
  EXPECT_EQ(server.gpu().time().vgpus().size(), 2u);
  server.End(a);
  EXPECT_EQ(server.gpu().time().vgpus().size(), 1u);
}

TEST(Broker, TheSameNameOnAnotherGpuIsAnotherVgpu) {
  VirtualServer server({}, 2);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\n").code, StatusCode::kOk);
  VirtualWorker& a = server.Begin("a");
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\ngpu=1\n").code, StatusCode::kOk);
  EXPECT_THAT(server.Ask("a", "uid:0").rows, ElementsAre(1));
  EXPECT_EQ(server.gpu(0).time().vgpus().size(), 2u);
  server.End(a);
  EXPECT_EQ(server.gpu(0).time().vgpus().size(), 1u);
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
      const Result<Trace> trace = ParseTrace(text.value());
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
  Result<Trace> trace = ParseTrace(text.value());
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->policy, "priority");
  EXPECT_GT(trace->events.size(), 500u);
  Result<Replayed> replayed = Replay(trace.value());
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  EXPECT_EQ(replayed->difference, std::nullopt);
  for (const char* gpu : {".0", ".1"}) unlink((path + gpu).c_str());
}

// vGPUs of the API.

FileVgpu OfApi(const std::string& name, double request) { return {.spec = {.name = name, .request = request}}; }

Status Make(VirtualServer& server, const FileVgpu& vgpu) {
  Result<VgpuBook> next = server.broker().book().With(vgpu);
  if (!next.ok()) return next.status();
  return server.broker().Adopt(std::move(next).value(), std::vector{vgpu}, server.now_ns());
}

TEST(Broker, TheFileAndTheApiShareAGpu) {
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.5\n").code, StatusCode::kOk);
  ASSERT_TRUE(Make(server, OfApi("mine", 0.3)).ok());
  EXPECT_EQ(server.Ask("a+mine", "uid:1").code, StatusCode::kInvalidArgument);  // of one GPU
  // What does not fit beside both changes nothing, and says who is too much.
  const Status more = Make(server, OfApi("other", 0.3));
  EXPECT_EQ(more.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(more.message(), HasSubstr("vGPU 'other': request 0.3 is 0.11 too much"));
  EXPECT_EQ(server.broker().book().Find("other"), nullptr);
  const VgpuFileAnswer answer = server.TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.7\n");
  EXPECT_EQ(answer.code, StatusCode::kResourceExhausted);
  EXPECT_THAT(answer.sentence, HasSubstr("line 1: vGPU 'a': request 0.7 is 0.01 too much"));
  // Another file leaves the API's vGPU and its sessions alone.
  VirtualWorker& mine = server.Begin("mine");
  mine.greedy = true;
  ASSERT_EQ(server.TakeFile("[[vgpu]]\nname = 'b'\nrequest = 0.69\n").code, StatusCode::kOk);
  VirtualWorker& b = server.Begin("b");
  b.greedy = true;
  server.RunFor(1'000 * kMs);
  EXPECT_NEAR(ShareOf(server, mine, 2'000 * kMs), 0.305, 0.03);
  EXPECT_EQ(server.broker().SessionsIn(0, "mine"), 1u);
  EXPECT_EQ(server.broker().SessionsIn(0, "b"), 1u);
}

}  // namespace
}  // namespace tessera
