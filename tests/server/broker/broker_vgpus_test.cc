// The vGPUs that the file and the control API make, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/broker/broker.h"
#include "tests/server/broker/broker_fixture.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
