// The broker in virtual time.
#include "server/broker/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Broker, SharesComeOutAsRequested) {
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  VirtualWorker& a = server.Begin("a");
  VirtualWorker& b = server.Begin("b");
  a.greedy = b.greedy = true;
  server.RunFor(1'000 * kMs);
  const int64_t before_ns = b.used_ns;
  EXPECT_NEAR(ShareOf(server, a, 2'000 * kMs), 0.695, 0.03);
  EXPECT_NEAR(static_cast<double>(b.used_ns - before_ns) / 2e9, 0.305, 0.03);
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
  VirtualServer server({}, 1);
  ASSERT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
  VirtualWorker& a = server.Begin("a");
  VirtualWorker& b = server.Begin("b");
  VirtualWorker& c = server.Begin("");
  a.greedy = b.greedy = c.greedy = true;
  server.RunFor(500 * kMs);
  while (!a.IsOpen(server.now_ns())) server.RunFor(VirtualServer::kStepNs);
  server.End(a);
  EXPECT_TRUE(b.IsOpen(server.now_ns()) || c.IsOpen(server.now_ns()));
}

TEST(Broker, AnswersWhoMayBeginWhere) {
  VirtualServer server({}, 2);
  ASSERT_EQ(server
                .TakeFile("[[vgpu]]\nname='a'\nrequest=0.5\n[[vgpu]]\nname='b'\ngpu=1\nowners=['uid:1000']\n"
                          "[[vgpu]]\nname='c'\ngpu=1\n")
                .code,
            StatusCode::kOk);
  EXPECT_THAT(server.Ask("a", 5).rows, ElementsAre(0));
  EXPECT_THAT(server.Ask("b+a", 1000).rows, ElementsAre(1, 0));
  const AskAnswer foreign = server.Ask("b", 5);
  EXPECT_EQ(foreign.code, StatusCode::kPermissionDenied);
  EXPECT_THAT(foreign.rows, IsEmpty());
  AskAnswer unknown = server.Ask("x", 5);
  EXPECT_EQ(unknown.code, StatusCode::kPermissionDenied);
  EXPECT_EQ(unknown.sentence.replace(unknown.sentence.find('x'), 1, "b"), foreign.sentence);
  const AskAnswer twice = server.Ask("b+c", 1000);
  EXPECT_EQ(twice.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(twice.sentence, HasSubstr("'b' and 'c' are of one GPU"));
  EXPECT_EQ(server.Ask("b+c", 5).sentence, foreign.sentence);  // not a word about what is another's
  for (const std::string& bad : {std::string(), std::string("a+"), std::string("+a"), std::string("default"),
                                 std::string("a\n\0b", 4), std::string(1024, 'n')}) {
    const AskAnswer answer = server.Ask(bad, 1000);
    EXPECT_EQ(answer.code, StatusCode::kPermissionDenied) << bad;
    EXPECT_EQ(answer.sentence.find('\n'), std::string::npos);
    EXPECT_EQ(answer.sentence.find('\0'), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
