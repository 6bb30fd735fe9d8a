// The calls of the control API, in virtual time.
#include "server/broker/vgpu_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/broker/vgpu_api_fixture.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

using Kind = VgpuCall::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(VgpuApi, ANewOneHasDefaults) {
  Served served({.default_request = 0.1});
  const VgpuAnswer answer = served.Create("a", {});
  ASSERT_EQ(answer.code, CallCode::kOk) << answer.sentence;
  ASSERT_EQ(answer.vgpus.size(), 1u);
  const ShownVgpu& view = answer.vgpus[0];
  EXPECT_EQ(view.vgpu.spec, (VgpuSpec{.name = "a", .request = 0.1, .limit = 1, .memory_bytes = uint64_t{1} << 30}));
  EXPECT_EQ(view.vgpu.gpu, 0u);
  EXPECT_EQ(view.vgpu.made_by, MadeBy::kApi);
  EXPECT_THAT(view.vgpu.owners, IsEmpty());
  EXPECT_EQ(view.sessions, 0u);
  EXPECT_EQ(view.gpu.substr(0, 4), "GPU-");
}

TEST(VgpuApi, AListSaysWhatVgpusCanHaveOfEachGpu) {
  Served served({}, 2);
  const GpuList gpus = served.api.Do({.kind = Kind::kList, .holder = kUser}, 0).gpus;
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[1].uuid, served.Create("a", {.gpu = "1", .request = 0.1}).vgpus[0].gpu);
  EXPECT_EQ((*gpus)[1].memory_for_vgpus_bytes, served.server.broker().memory(1).for_vgpus_bytes);
  EXPECT_EQ((*gpus)[1].context_bytes, served.server.broker().memory(1).context_bytes);
  EXPECT_GT((*gpus)[1].memory_for_vgpus_bytes, 0u);
  EXPECT_DOUBLE_EQ((*gpus)[1].kept_share, 0.01);
  EXPECT_THAT((*gpus)[1].priorities, ElementsAre("protected", "normal"));
  Served told({.policies = {{"", "fixed"}, {"1", "priority"}}}, 2);
  const GpuList by_policy = told.api.Do({.kind = Kind::kList, .holder = kUser}, 0).gpus;
  EXPECT_THAT((*by_policy)[0].priorities, ElementsAre("normal"));
  EXPECT_THAT((*by_policy)[1].priorities, ElementsAre("protected", "normal", "best-effort"));
  Served alone({.has_default = false});
  EXPECT_EQ(alone.api.Do({.kind = Kind::kList, .holder = kUser}, 0).gpus->front().kept_share, 0);
}

TEST(VgpuApi, FieldsAreTakenOver) {
  Served served({}, 2);
  const VgpuAnswer made = served.Create("a", {.gpu = "1",
                                              .request = 0.25,
                                              .limit = 0.5,
                                              .memory_bytes = 4096,
                                              .priority = "protected",
                                              .overrun = "end",
                                              .max_sessions = 3,
                                              .owners = {{kUser}}});
  ASSERT_EQ(made.code, CallCode::kOk) << made.sentence;
  EXPECT_EQ(made.vgpus[0].vgpu.gpu, 1u);
  EXPECT_EQ(made.vgpus[0].vgpu.spec, (VgpuSpec{.name = "a",
                                               .request = 0.25,
                                               .limit = 0.5,
                                               .priority = Priority::kProtected,
                                               .overrun = Overrun::kEnd,
                                               .memory_bytes = 4096,
                                               .max_sessions = 3}));
  EXPECT_THAT(made.vgpus[0].vgpu.owners, ElementsAre(kUser));
  // What is not named stays.
  const VgpuAnswer changed = served.Update("a", {.limit = 0.75}, made.vgpus[0].vgpu.revision);
  ASSERT_EQ(changed.code, CallCode::kOk) << changed.sentence;
  EXPECT_EQ(changed.vgpus[0].vgpu.spec.request, 0.25);
  EXPECT_EQ(changed.vgpus[0].vgpu.spec.limit, 0.75);
  EXPECT_EQ(changed.vgpus[0].vgpu.spec.priority, Priority::kProtected);
  EXPECT_THAT(changed.vgpus[0].vgpu.owners, ElementsAre(kUser));
  EXPECT_GT(changed.vgpus[0].vgpu.revision, made.vgpus[0].vgpu.revision);
  const VgpuAnswer for_all = served.Update("a", {.owners = std::vector<std::string>()});
  EXPECT_THAT(for_all.vgpus[0].vgpu.owners, IsEmpty());
}

// A session without a limit that says it holds the whole GPU.
TEST(VgpuApi, AReportThatIsNotBelievedTakesNoMemoryOfOthers) {
  Served served;
  VirtualWorker& liar = served.server.Begin("");
  liar.pages->report().rows[0].memory_held = uint64_t{10} << 30;
  const VgpuFields wanted = {.memory_bytes = uint64_t{1} << 30};
  served.server.RunFor(2'000'000'000);
  EXPECT_TRUE(served.server.reported().empty()) << "the GPU is free, and nobody has wanted a limit";
  EXPECT_EQ(served.Create("a", wanted).code, CallCode::kResourceExhausted);
  served.server.RunFor(2'000'000'000);
  ASSERT_FALSE(served.server.reported().empty());
  EXPECT_EQ(served.server.reported().back().rows.at(0).held_bytes, uint64_t{10} << 30);
  const auto take = [&](const SeenMessage& seen) {
    return served.server.broker().Take(AsReceived(seen), served.server.now_ns()).ok();
  };
  EXPECT_TRUE(take({{{liar.number, 0, uint64_t{512} << 20}, {liar.number, 1, 0}, {liar.number + 1, 0, 0}}}));
  EXPECT_EQ(served.Create("a", wanted).code, CallCode::kOk);
  const VgpuAnswer refused = served.Update("a", {.memory_bytes = uint64_t{10} << 30});
  EXPECT_THAT(refused.sentence, HasSubstr("memory 10 GiB is 512 MiB too much"));
  EXPECT_TRUE(take({}));
  EXPECT_EQ(served.Create("b", wanted).code, CallCode::kResourceExhausted) << "it is believed again";
}

TEST(VgpuApi, MemoryIsAsTheRequestUnlessItIsSaid) {
  Served served;
  const auto memory = [](const VgpuAnswer& answer) { return answer.vgpus.at(0).vgpu.spec.memory_bytes; };
  EXPECT_EQ(memory(served.Create("a", {.request = 0.25})), uint64_t{2560} << 20);
  EXPECT_EQ(memory(served.Update("a", {.request = 0.2})), uint64_t{2560} << 20) << "what is not named stays";
  EXPECT_EQ(memory(served.Update("a", {.memory_bytes = 0})), 0u);
  EXPECT_EQ(memory(served.Create("b", {})), 0u) << "without a request there is no part";
  for (const double request : {1e-5, 1e-9}) {
    EXPECT_EQ(memory(served.Create("little", {.request = request})), uint64_t{2} << 20) << "less than a piece is no limit";
    ASSERT_EQ(served.Delete("little").code, CallCode::kOk);
  }
  EXPECT_EQ(memory(served.Create("c", {.request = 0.1, .memory_bytes = uint64_t{8} << 30})), uint64_t{8} << 30);
  const VgpuAnswer refused = served.Create("d", {.request = 0.3});
  EXPECT_EQ(refused.code, CallCode::kResourceExhausted);
  EXPECT_THAT(refused.sentence, HasSubstr("memory 3 GiB is 1 GiB too much: the GPU has 10 GiB for vGPUs, and 2 GiB are left"));
}

TEST(VgpuApi, AnnotationsFillInWhatFieldsDoNotSay) {
  Served served;
  const auto spec = [](const VgpuAnswer& answer) { return answer.vgpus.at(0).vgpu.spec; };
  const VgpuAnswer made = served.Create("a", {.limit = 0.5,
                                              .annotations = {{"fastgshare/gpu_quota_request", "0.25"},
                                                              {"fastgshare/gpu_quota_limit", "0.5"},
                                                              {"fastgshare/gpu_mem", "1073741824"},
                                                              {"fastgshare/gpu_sm_partition", "24"}}});
  ASSERT_EQ(made.code, CallCode::kOk) << made.sentence;
  EXPECT_EQ(spec(made),
            (VgpuSpec{.name = "a", .request = 0.25, .limit = 0.5, .memory_bytes = uint64_t{1} << 30, .sm_percent = 24}));
  // The memory that is not said goes by the request, whoever said that.
  EXPECT_EQ(spec(served.Create("b", {.annotations = {{"fastgshare/gpu_quota_request", "0.25"}}})).memory_bytes,
            uint64_t{2560} << 20);
  // Of a resized one, what nothing is said of stays.
  const VgpuAnswer changed = served.Update("a", {.annotations = {{"fastgshare/gpu_quota_limit", "0.75"}}});
  ASSERT_EQ(changed.code, CallCode::kOk) << changed.sentence;
  EXPECT_EQ(spec(changed),
            (VgpuSpec{.name = "a", .request = 0.25, .limit = 0.75, .memory_bytes = uint64_t{1} << 30, .sm_percent = 24}));
  EXPECT_GT(changed.vgpus[0].vgpu.revision, made.vgpus[0].vgpu.revision);
  EXPECT_EQ(spec(served.Update("a", {.request = 0.3})).sm_percent, 24u);
  EXPECT_EQ(spec(served.Update("a", {.annotations = {{"fastgshare/gpu_sm_partition", "100"}}})).sm_percent, 100u);
}

TEST(VgpuApi, BadAnnotationsAreNamedAndChangeNothing) {
  Served served;
  ASSERT_EQ(served.Create("there", {.request = 0.25}).code, CallCode::kOk);
  const VgpuList before = served.api.All();
  const std::pair<VgpuFields, const char*> wrong[] = {
      {{.annotations = {{"fastgshare/gpu_quota_request", "half"}}},
       "annotation fastgshare/gpu_quota_request: 'half' is no share"},
      {{.request = 0.5, .annotations = {{"fastgshare/gpu_quota_request", "0.4"}}}, "'0.4' contradicts request 0.5"},
      {{.memory_bytes = 0, .annotations = {{"fastgshare/gpu_mem", "4096"}}}, "'4096' contradicts memory_bytes 0"},
      {{.annotations = {{"example.com/gpu", "1"}}}, "annotation 'example.com/gpu', with the value '1', is none"},
      {{.annotations = {{"fastgshare/gpu_quota_request", "0.6"}, {"fastgshare/gpu_quota_limit", "0.5"}}},
       "limit 0.5 is 0.1 below the request"},
  };
  for (const auto& [fields, words] : wrong) {
    for (const VgpuAnswer& answer : {served.Create("a", fields), served.Update("there", fields)}) {
      EXPECT_EQ(answer.code, CallCode::kInvalidArgument) << words;
      EXPECT_THAT(answer.sentence, StartsWith("vGPU '"));
      EXPECT_THAT(answer.sentence, HasSubstr(words));
    }
  }
  EXPECT_EQ(*served.api.All(), *before);
}

TEST(VgpuApi, BadFieldsAreNamed) {
  Served served;
  const auto expect = [](const VgpuAnswer& answer, CallCode code, const std::string& words) {
    EXPECT_EQ(answer.code, code) << answer.sentence;
    EXPECT_THAT(answer.sentence, HasSubstr(words));
    EXPECT_THAT(answer.vgpus, IsEmpty());
  };
  expect(served.Create("a", {.request = 1.5}), CallCode::kInvalidArgument, "vGPU 'a': request 1.5 is 0.5 above 1");
  expect(served.Create("a", {.request = 0.5, .limit = 0.4}), CallCode::kInvalidArgument, "limit 0.4 is 0.1 below the request");
  expect(served.Create("a", {.priority = "high"}), CallCode::kInvalidArgument, "priority 'high' is none of");
  expect(served.Create("a", {.overrun = "kill"}), CallCode::kInvalidArgument, "overrun 'kill' is neither");
  expect(served.Create("a", {.owners = {{"root"}}}), CallCode::kInvalidArgument, "owners: 'root' is no owner");
  expect(served.Create("a", {.owners = {{"anonymous"}}}), CallCode::kInvalidArgument, "owners: 'anonymous' is no owner");
  expect(served.Create("a", {.owners = std::vector<std::string>(65, kUser)}), CallCode::kInvalidArgument, "1 more than 64");
  expect(served.Create("a", {.gpu = "7"}), CallCode::kInvalidArgument, "gpu: ");
  expect(served.Create("", {}), CallCode::kInvalidArgument, "name: it is empty");
  expect(served.Create("a b\n", {}), CallCode::kInvalidArgument, "name: only");
  expect(served.Create("default", {}), CallCode::kInvalidArgument, "name 'default'");
  expect(served.Create("a", {.request = 0.999}), CallCode::kResourceExhausted, "request 0.999 is 0.009 too much");
  expect(served.Do({.kind = Kind::kCreate, .holder = kRoot, .request_id = std::string(129, 'x'), .name = "a"}),
         CallCode::kInvalidArgument, "request_id: 129 bytes are 1 more than 128");
  EXPECT_THAT(served.Names(kRoot), IsEmpty());
  ASSERT_EQ(served.Create("a", {}).code, CallCode::kOk);
  expect(served.Create("a", {}), CallCode::kAlreadyExists, "made by the api");
  expect(served.Update("a", {.gpu = "7"}), CallCode::kInvalidArgument, "gpu: it stays on GPU 0");
  expect(served.Update("a", {.limit = 0}), CallCode::kInvalidArgument, "limit 0 is not above 0");
  expect(served.Update("b", {}), CallCode::kNotFound, "no vGPU 'b' for you");
  expect(served.Delete("b"), CallCode::kNotFound, "no vGPU 'b' for you");
  expect(served.Delete("a", true, 86'401), CallCode::kInvalidArgument, "grace_s 86401 is 1 above");
}

TEST(VgpuApi, AnOldRevisionIsRefusedWithThePresentState) {
  Served served;
  const uint64_t old = served.Create("a", {.request = 0.1}).vgpus[0].vgpu.revision;
  ASSERT_EQ(served.Update("a", {.request = 0.2}, old).code, CallCode::kOk);
  const VgpuAnswer late = served.Update("a", {.request = 0.3}, old);
  EXPECT_EQ(late.code, CallCode::kAborted);
  EXPECT_THAT(late.sentence, HasSubstr("with request 0.2"));
  EXPECT_EQ(served.Do({.kind = Kind::kDelete, .holder = kRoot, .name = "a", .revision = old}).code, CallCode::kAborted);
  EXPECT_EQ(served.server.broker().book().Find("a")->spec.request, 0.2);
}

TEST(VgpuApi, WhatTheFileMadeIsTheFiles) {
  Served served;
  ASSERT_EQ(served.server.TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.5\n").code, StatusCode::kOk);
  EXPECT_EQ(served.Create("a", {}).code, CallCode::kAlreadyExists);
  for (const VgpuAnswer& answer : {served.Update("a", {.limit = 0.6}), served.Delete("a"), served.Delete("a", true)}) {
    EXPECT_EQ(answer.code, CallCode::kFailedPrecondition);
    EXPECT_THAT(answer.sentence, HasSubstr("was made by the file"));
  }
  EXPECT_EQ(served.server.broker().book().Find("a")->spec.limit, 1);
}

TEST(VgpuApi, OthersSeeTheirOwnAndChangeNothing) {
  Served served;
  ASSERT_EQ(served.Create("mine", {.owners = {{kUser}}}).code, CallCode::kOk);
  ASSERT_EQ(served.Create("theirs", {.owners = {{"uid:2000"}}}).code, CallCode::kOk);
  ASSERT_EQ(served.Create("all", {}).code, CallCode::kOk);
  EXPECT_THAT(served.Names(kRoot), ElementsAre("all", "mine", "theirs"));
  EXPECT_THAT(served.Names("name:boss"), ElementsAre("all", "mine", "theirs"));
  EXPECT_THAT(served.Names(kUser), ElementsAre("all", "mine"));
  EXPECT_EQ(served.Do({.kind = Kind::kGet, .holder = kUser, .name = "mine"}).vgpus.size(), 1u);
  // That of another and none at all are told in the same words.
  VgpuAnswer another = served.Do({.kind = Kind::kGet, .holder = kUser, .name = "theirs"});
  const VgpuAnswer none = served.Do({.kind = Kind::kGet, .holder = kUser, .name = "nothere"});
  EXPECT_EQ(another.code, CallCode::kNotFound);
  another.sentence.replace(another.sentence.find("theirs"), 6, "nothere");
  EXPECT_EQ(another, none);
  for (const Kind kind : {Kind::kCreate, Kind::kUpdate, Kind::kDelete}) {
    for (const char* name : {"mine", "theirs", "nothere"}) {
      EXPECT_EQ(served.Do({.kind = kind, .holder = kUser, .name = name}).code, CallCode::kPermissionDenied) << name;
    }
  }
  EXPECT_EQ(served.Do({.kind = Kind::kDelete, .holder = "name:boss", .name = "mine"}).code, CallCode::kOk);
}

TEST(VgpuApi, SessionsAreCountedAndKeepAVgpu) {
  Served served;
  ASSERT_EQ(served.Create("a", {.request = 0.3}).code, CallCode::kOk);
  VirtualWorker& worker = served.server.Begin("a");
  EXPECT_EQ(served.Do({.kind = Kind::kGet, .holder = kRoot, .name = "a"}).vgpus[0].sessions, 1u);
  const VgpuAnswer refused = served.Delete("a");
  EXPECT_EQ(refused.code, CallCode::kFailedPrecondition);
  EXPECT_THAT(refused.sentence, HasSubstr("is used by 1 session:"));
  served.server.End(worker);
  EXPECT_EQ(served.Delete("a").code, CallCode::kOk);
}

TEST(VgpuApi, ByForceSessionsEndAfterTheirGrace) {
  Served served;
  ASSERT_EQ(served.Create("a", {.request = 0.3}).code, CallCode::kOk);
  ASSERT_EQ(served.Create("b", {.request = 0.3}).code, CallCode::kOk);
  VirtualWorker& a = served.server.Begin("a");
  served.server.Begin("b");
  const VgpuAnswer answer = served.Delete("a", true, 2);
  ASSERT_EQ(answer.code, CallCode::kOk) << answer.sentence;
  EXPECT_EQ(answer.vgpus[0].sessions, 1u);
  EXPECT_EQ(served.server.Ask("a", kRoot).code, StatusCode::kPermissionDenied);
  // Said at once: the daemon outlives this broker.
  ASSERT_EQ(served.server.to_end().size(), 1u);
  EXPECT_EQ(served.server.to_end()[0].session, a.number);
  EXPECT_EQ(served.server.to_end()[0].at_ns, static_cast<uint64_t>(served.server.now_ns() + 2'000 * kMs));
  // Its name is taken until its sessions have ended.
  const VgpuAnswer again = served.Create("a", {});
  EXPECT_EQ(again.code, CallCode::kFailedPrecondition);
  EXPECT_THAT(again.sentence, HasSubstr("goes with its 1 session:"));
  served.server.End(a);
  EXPECT_EQ(served.Create("a", {}).code, CallCode::kOk);
}

TEST(VgpuApi, AResizedVgpuHasItsNewShareAtOnce) {
  Served served;
  ASSERT_EQ(served.Create("a", {.request = 0.69}).code, CallCode::kOk);
  ASSERT_EQ(served.Create("b", {.request = 0.3}).code, CallCode::kOk);
  VirtualWorker& a = served.server.Begin("a");
  VirtualWorker& b = served.server.Begin("b");
  a.greedy = b.greedy = true;
  served.server.RunFor(3'000 * kMs);
  ASSERT_EQ(served.Update("a", {.request = 0.3}).code, CallCode::kOk);
  ASSERT_EQ(served.Update("b", {.request = 0.69}).code, CallCode::kOk);
  served.server.RunFor(1'000 * kMs);
  const int64_t before_ns = b.used_ns;
  served.server.RunFor(1'000 * kMs);
  EXPECT_NEAR(static_cast<double>(b.used_ns - before_ns) / 1e9, 0.695, 0.05);
}

TEST(VgpuApi, WhatWatchersSeeCountsAsAChange) {
  Served served;
  uint64_t seen = served.server.broker().changes();
  const auto changed = [&] { return std::exchange(seen, served.server.broker().changes()) != served.server.broker().changes(); };
  ASSERT_EQ(served.Create("a", {}).code, CallCode::kOk);
  EXPECT_TRUE(changed());
  EXPECT_EQ(served.Create("b", {.request = 2}).code, CallCode::kInvalidArgument);
  served.server.RunFor(500 * kMs);
  EXPECT_FALSE(changed());
  VirtualWorker& worker = served.server.Begin("a");
  EXPECT_TRUE(changed());
  served.server.RunFor(500 * kMs);
  EXPECT_FALSE(changed());
  served.server.End(worker);
  EXPECT_TRUE(changed());
  EXPECT_EQ(served.api.All()->size(), 1u);
}

// Whoever looks again and again costs the broker's thread next to nothing.
TEST(VgpuApi, WhatIsShownIsMadeOnceForAChange) {
  Served served;
  ASSERT_EQ(served.Create("a", {}).code, CallCode::kOk);
  const VgpuList all = served.api.All();
  EXPECT_EQ(served.api.Do({.kind = Kind::kList, .holder = kUser}, served.server.now_ns()).all, all);
  EXPECT_EQ(served.api.Do({.kind = Kind::kGet, .holder = kUser, .name = "b"}, served.server.now_ns()).all, all);
  served.server.Begin("a");
  EXPECT_NE(served.api.All(), all);
  EXPECT_EQ(served.api.All()->at(0).sessions, 1u);
}

}  // namespace
}  // namespace tessera
