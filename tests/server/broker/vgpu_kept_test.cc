// What the control API remembers beyond its broker, in virtual time: vGPUs, and the answers to requests.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/broker/vgpu_api_fixture.h"

namespace tessera {
namespace {

using Kind = VgpuCall::Kind;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(VgpuApi, WhatWouldNotBeKeptIsNotMade) {
  Served served({.has_default = false});
  const VgpuFields long_one{.request = 0.001,
                            .owners = {std::vector<std::string>(VgpuCall::kOwnersMax, "name:" + std::string(200, 'x'))}};
  VgpuAnswer last;
  size_t made = 0;
  while ((last = served.Create(fmt::format("v{}", made), long_one)).code == CallCode::kOk) ++made;
  EXPECT_GT(made, 3u);
  EXPECT_EQ(last.code, CallCode::kResourceExhausted);
  EXPECT_THAT(last.sentence, HasSubstr("more than are kept: delete some"));
  ASSERT_EQ(served.Delete("v0").code, CallCode::kOk);
  const VgpuAnswer small = served.Create("small", {.request = 0.001});
  ASSERT_EQ(small.code, CallCode::kOk) << small.sentence;
  VgpuFields longer = long_one;
  longer.owners->front() += std::string(40, 'x');
  while (served.Create(fmt::format("more{}", made), longer).code == CallCode::kOk) ++made;
  EXPECT_EQ(served.Update("small", longer).code, CallCode::kResourceExhausted);
  // All that is there outlives the broker, and what is changed then.
  ASSERT_EQ(served.Delete("v1").code, CallCode::kOk);
  ASSERT_EQ(served.Create("new", {.request = 0.001}).code, CallCode::kOk);
  const std::vector<std::string> names = served.Names(kRoot);
  served.server.Restart();
  served.server.GiveBack(served.server.kept());
  VgpuApi api(served.server.broker(), {kRoot});
  std::vector<std::string> again;
  for (const ShownVgpu& view : *api.All()) again.push_back(view.vgpu.spec.name);
  EXPECT_EQ(again, names);
}

TEST(VgpuApi, ARequestThatComesAgainIsTheSameAnswer) {
  Served served;
  const VgpuCall call{.kind = Kind::kCreate, .holder = kRoot, .request_id = "7", .name = "a", .fields = {.request = 0.2}};
  const VgpuAnswer first = served.Do(call);
  ASSERT_EQ(first.code, CallCode::kOk);
  ASSERT_EQ(served.Delete("a").code, CallCode::kOk);
  EXPECT_EQ(served.Do(call), first);
  EXPECT_THAT(served.Names(kRoot), IsEmpty());  // it was not made again
  VgpuCall other = call;
  other.fields.request = 0.3;
  const VgpuAnswer refused = served.Do(other);
  EXPECT_EQ(refused.code, CallCode::kAborted);
  EXPECT_THAT(refused.sentence, HasSubstr("request_id '7' was that of another request"));
  // Another's ids are his own.
  other.holder = "name:boss";
  EXPECT_EQ(served.Do(other).code, CallCode::kOk);
}

TEST(VgpuApi, ARequestThatComesAgainAfterItsBrokerIsTheSameAnswer) {
  Served served;
  ASSERT_EQ(served.Create("there", {.request = 0.1}).code, CallCode::kOk);
  const std::vector<VgpuCall> calls = {
      {.kind = Kind::kCreate,
       .holder = kRoot,
       .request_id = "create",
       .name = "a",
       .fields = {.request = 0.2, .owners = {{kUser}}}},
      {.kind = Kind::kUpdate, .holder = kRoot, .request_id = "update", .name = "there", .fields = {.limit = 0.5}},
      {.kind = Kind::kImport, .holder = kRoot, .request_id = "import", .text = "1\nx 0.1 1 0\n", .path = "my.toml"},
      {.kind = Kind::kDelete, .holder = "name:boss", .request_id = "delete", .name = "there"},
      {.kind = Kind::kDelete, .holder = kRoot, .request_id = "delete", .name = "nothere"}};
  std::vector<VgpuAnswer> answers;
  for (const VgpuCall& call : calls) answers.push_back(served.Do(call));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answers[i].code, CallCode::kOk) << answers[i].sentence;
  EXPECT_EQ(answers[4].code, CallCode::kNotFound);
  served.server.Restart();
  EXPECT_FALSE(served.server.broker().is_told());
  served.server.GiveBack(served.server.kept());
  served.server.GiveBack(served.server.answered());
  EXPECT_TRUE(served.server.broker().is_told());
  VgpuApi api(served.server.broker(), served.kAdministrators);
  // Also of what would be another answer by now.
  ASSERT_EQ(served.DoAt(api, {.kind = Kind::kDelete, .holder = kRoot, .name = "a"}).code, CallCode::kOk);
  ASSERT_EQ(served.DoAt(api, {.kind = Kind::kCreate, .holder = kRoot, .name = "nothere"}).code, CallCode::kOk);
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(served.DoAt(api, calls[i]), answers[i]) << i;
  EXPECT_EQ(served.server.broker().book().vgpus().size(), 2u);  // x, nothere
  VgpuCall other = calls[2];
  other.text += "#";
  const VgpuAnswer refused = served.DoAt(api, other);
  EXPECT_EQ(refused.code, CallCode::kAborted);
  EXPECT_EQ(refused.sentence, "request_id 'import' was that of another request, about my.toml: take a new one");
}

TEST(VgpuApi, AnAnswerOfAnotherReleaseIsForgotten) {
  Served served;
  const VgpuCall call{.kind = Kind::kDelete, .holder = kRoot, .request_id = "7", .name = "a"};
  AnsweredRequests answered;
  answered.Add({kRoot, "7", 1, "in another form"});
  served.server.GiveBack(answered);
  EXPECT_EQ(served.Do(call).code, CallCode::kNotFound);
  ASSERT_EQ(served.Create("a", {}).code, CallCode::kOk);
  EXPECT_EQ(served.Do(call).code, CallCode::kNotFound);  // as before
}

TEST(VgpuApi, AChangeAndItsAnswerAreKeptTogether) {
  Served served;
  // What a daemon has of a broker that ends between two messages: neither.
  const std::string before = served.server.kept().text;
  served.server.CutOffBeforeKept();
  ASSERT_EQ(served.Do({.kind = Kind::kCreate, .holder = kRoot, .request_id = "1", .name = "a"}).code, CallCode::kOk);
  EXPECT_EQ(served.server.kept().text, before);
  EXPECT_EQ(served.server.answered().Find(kRoot, "1"), nullptr);
  // Without a request id there is nothing beside the change.
  Served plain;
  ASSERT_EQ(plain.Create("a", {}).code, CallCode::kOk);
  EXPECT_EQ(plain.server.answered().bytes(), 0u);
}

TEST(VgpuApi, ByForceSessionsAreToEndBeforeTheChangeIsKept) {
  Served served;
  ASSERT_EQ(served.Create("a", {.request = 0.3}).code, CallCode::kOk);
  served.server.Begin("a");
  served.server.CutOffBeforeKept();
  ASSERT_EQ(served.Delete("a", true).code, CallCode::kOk);
  EXPECT_EQ(served.server.to_end().size(), 1u);
}

TEST(VgpuApi, SoManyRequestsAreRemembered) {
  Served served;
  VgpuCall call{.kind = Kind::kDelete, .holder = kRoot, .request_id = "first", .name = "a"};
  EXPECT_EQ(served.Do(call).code, CallCode::kNotFound);
  ASSERT_EQ(served.Create("a", {}).code, CallCode::kOk);
  for (size_t i = 1; i < AnsweredRequests::kOfHolderMax; ++i) {
    served.Do({.kind = Kind::kDelete, .holder = kRoot, .request_id = std::to_string(i), .name = "b"});
  }
  EXPECT_EQ(served.Do(call).code, CallCode::kNotFound);
  served.Do({.kind = Kind::kDelete, .holder = kRoot, .request_id = "last", .name = "b"});
  EXPECT_EQ(served.Do(call).code, CallCode::kOk);  // it is forgotten, and counts
}

TEST(VgpuApi, TheBrokersSuccessorHasItsVgpus) {
  Served served({}, 2);
  const VgpuFields fields{.gpu = "1",
                          .request = 0.123456789,
                          .limit = 0.5,
                          .memory_bytes = 123'456'789,
                          .priority = "best-effort",
                          .overrun = "end",
                          .max_sessions = 4'000'000'000,
                          .owners = {{kUser, "name:a \"b\" \\c"}},
                          .annotations = {{kSmPartitionAnnotation, "24"}}};
  const uint64_t old = served.Create("a", fields).vgpus[0].vgpu.revision;
  ASSERT_EQ(served.Create("b", {.request = 0.3}).code, CallCode::kOk);
  ASSERT_EQ(served.server.TakeFile("[[vgpu]]\nname = 'f'\nrequest = 0.5\n").code, StatusCode::kOk);
  VirtualWorker& worker = served.server.Begin("b");
  std::vector<ShownVgpu> before = *served.api.All();
  served.server.Restart();
  VgpuApi api(served.server.broker(), {kRoot});
  served.server.GiveBack(served.server.kept());
  ASSERT_EQ(served.server.TakeFile("[[vgpu]]\nname = 'f'\nrequest = 0.5\n").code, StatusCode::kOk);
  served.server.Tell(worker, "b");
  std::vector<ShownVgpu> after = *api.All();
  ASSERT_EQ(after.size(), 3u);
  // An old revision is of no use, whatever it was.
  EXPECT_GT(after[0].vgpu.revision, old);
  for (std::vector<ShownVgpu>* views : {&before, &after}) {
    for (ShownVgpu& view : *views) view.vgpu.revision = 0;
  }
  EXPECT_EQ(after, before);
  // What was deleted is not kept.
  served.server.End(worker);
  ASSERT_EQ(api.Do({.kind = Kind::kDelete, .holder = kRoot, .name = "b"}, served.server.now_ns()).code, CallCode::kOk);
  served.server.Restart();
  served.server.GiveBack(served.server.kept());
  EXPECT_EQ(served.server.broker().book().vgpus().size(), 1u);
}

TEST(VgpuApi, WhatCannotBeAnyMoreIsSetAside) {
  Served served;
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(served.Create(name, {.request = 0.3, .owners = {{kUser}}}).code, CallCode::kOk);
  }
  KeptMessage kept = served.server.kept();
  const size_t gpu = kept.text.find("GPU-");
  kept.text.replace(gpu, 12, "GPU-ffffffff");  // another machine's
  served.server.Restart();
  VgpuApi api(served.server.broker(), {kRoot});
  const auto act = [&](const VgpuCall& call) { return served.DoAt(api, call); };
  ASSERT_EQ(served.server.TakeFile("[[vgpu]]\nname = 'f'\nrequest = 0.5\n").code, StatusCode::kOk);
  served.server.GiveBack(kept);
  const std::vector<ShownVgpu> all = *api.All();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[0].problem, StartsWith("gpu GPU-ffffffff"));
  EXPECT_EQ(all[1].problem, "");
  EXPECT_EQ(all[1].vgpu.spec.request, 0.3);
  EXPECT_EQ(all[2].problem, "vGPU 'c': request 0.3 is 0.11 too much: 0.8 of 0.99 are taken, 0.19 are left");
  EXPECT_EQ(all[3].vgpu.spec.name, "f");
  EXPECT_EQ(act({.kind = Kind::kList, .holder = kUser}).vgpus.size(), 2u);  // what can be used
  EXPECT_EQ(act({.kind = Kind::kGet, .holder = kUser, .name = "a"}).code, CallCode::kNotFound);
  EXPECT_EQ(act({.kind = Kind::kCreate, .holder = kRoot, .name = "a"}).code, CallCode::kAlreadyExists);
  const VgpuAnswer update = act({.kind = Kind::kUpdate, .holder = kRoot, .name = "c"});
  EXPECT_EQ(update.code, CallCode::kFailedPrecondition);
  EXPECT_THAT(update.sentence, HasSubstr("not in force: vGPU 'c': request 0.3 is 0.11 too much"));
  // It is kept through other changes, until it is deleted.
  EXPECT_EQ(act({.kind = Kind::kDelete, .holder = kRoot, .name = "b"}).code, CallCode::kOk);
  EXPECT_THAT(served.server.kept().text, HasSubstr("GPU-ffffffff"));
  EXPECT_THAT(served.server.kept().text, HasSubstr("name = \"c\""));
  EXPECT_EQ(act({.kind = Kind::kDelete, .holder = kRoot, .name = "a"}).code, CallCode::kOk);
  EXPECT_EQ(api.All()->size(), 2u);
  EXPECT_THAT(served.server.kept().text, Not(HasSubstr("GPU-ffffffff")));
  // Where it fits again, it is in force again.
  served.server.Restart();
  served.server.GiveBack(served.server.kept());
  EXPECT_EQ(served.server.broker().book().vgpus().size(), 1u);
  EXPECT_NE(served.server.broker().book().Find("c"), nullptr);
  // Of what somebody else has written nothing counts, and nothing ends.
  served.server.Restart();
  served.server.GiveBack({9, "rubbish [[vgpu]] name = [[vgpu]]\nname = \"\x01\"\n[[vgpu]]"});
  EXPECT_THAT(served.server.broker().book().aside(), IsEmpty());
}

}  // namespace
}  // namespace tessera
