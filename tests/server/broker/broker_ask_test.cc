// The answers of the broker to a program that asks to begin, in virtual time: which vGPUs it may use, and whether there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/broker/broker.h"
#include "tests/server/broker/virtual_workers.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace tessera
