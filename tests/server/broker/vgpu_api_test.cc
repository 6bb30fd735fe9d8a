// The calls of the control API, in virtual time.
#include "server/broker/vgpu_api.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/broker/virtual_workers.h"

namespace tessera {
namespace {

using Kind = VgpuCall::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kRoot = "uid:0";
constexpr const char* kUser = "uid:1000";

struct Served {
  explicit Served(const BrokerOptions& options = {}, size_t gpus = 1) : server(options, gpus) {}
  VgpuAnswer Do(const VgpuCall& call) { return DoAt(api, call); }
  // With what the front does.
  VgpuAnswer DoAt(VgpuApi& other, const VgpuCall& call) {
    VgpuAnswer answer = other.Do(call, server.now_ns());
    return answer.all == nullptr ? answer : AnswerFrom(*answer.all, call, kAdministrators);
  }
  VgpuAnswer Create(const std::string& name, const VgpuFields& fields) {
    return Do({.kind = Kind::kCreate, .holder = kRoot, .name = name, .fields = fields});
  }
  VgpuAnswer Update(const std::string& name, const VgpuFields& fields, uint64_t revision = 0) {
    return Do({.kind = Kind::kUpdate, .holder = kRoot, .name = name, .fields = fields, .revision = revision});
  }
  VgpuAnswer Delete(const std::string& name, bool force = false, uint32_t grace_s = 0) {
    return Do({.kind = Kind::kDelete, .holder = kRoot, .name = name, .force = force, .grace_s = grace_s});
  }
  VgpuAnswer Import(const std::string& text, const std::string& request_id = "") {
    return Do({.kind = Kind::kImport, .holder = kRoot, .request_id = request_id, .text = text, .path = "my.toml"});
  }
  std::vector<std::string> Names(const std::string& holder) {
    std::vector<std::string> names;
    for (const ShownVgpu& view : Do({.kind = Kind::kList, .holder = holder}).vgpus) names.push_back(view.vgpu.spec.name);
    return names;
  }

  VirtualServer server;
  const std::vector<std::string> kAdministrators = {kRoot, "name:boss"};
  VgpuApi api{server.broker(), kAdministrators};
};

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

TEST(VgpuApi, MemoryIsAsTheRequestUnlessItIsSaid) {
  Served served;
  const auto memory = [](const VgpuAnswer& answer) { return answer.vgpus.at(0).vgpu.spec.memory_bytes; };
  EXPECT_EQ(memory(served.Create("a", {.request = 0.25})), uint64_t{2560} << 20);
  EXPECT_EQ(memory(served.Update("a", {.request = 0.2})), uint64_t{2560} << 20) << "what is not named stays";
  EXPECT_EQ(memory(served.Update("a", {.memory_bytes = 0})), 0u);
  EXPECT_EQ(memory(served.Create("b", {})), 0u) << "without a request there is no part";
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

TEST(VgpuApi, AFileIsImportedAsAWhole) {
  Served served({.default_request = 0.1}, 2);
  const VgpuAnswer made = served.Import(R"(
[[vgpu]]
name = "b"
gpu = 1
request = 0.5
memory = "1GiB"
owners = ["uid:1000"]
[[vgpu]]
name = "a"
)");
  ASSERT_EQ(made.code, CallCode::kOk) << made.sentence;
  ASSERT_EQ(made.vgpus.size(), 2u);
  EXPECT_EQ(made.vgpus[0].vgpu.spec, (VgpuSpec{.name = "a", .request = 0.1})) << "a file's defaults";
  EXPECT_EQ(made.vgpus[1].vgpu.spec, (VgpuSpec{.name = "b", .request = 0.5, .memory_bytes = uint64_t{1} << 30}));
  EXPECT_EQ(made.vgpus[1].vgpu.gpu, 1u);
  EXPECT_EQ(made.vgpus[1].vgpu.made_by, MadeBy::kApi);
  EXPECT_THAT(made.vgpus[1].vgpu.owners, ElementsAre(kUser));
  EXPECT_EQ(*served.api.All(), made.vgpus);
  // They are the API's from then on, also after a broker.
  ASSERT_EQ(served.Update("b", {.request = 0.4}).code, CallCode::kOk);
  served.server.Restart();
  served.server.GiveBack(served.server.kept());
  EXPECT_EQ(served.server.broker().book().Find("b")->spec.request, 0.4);
  EXPECT_EQ(served.server.broker().book().vgpus().size(), 2u);
}

TEST(VgpuApi, GeminisFormIsImportedToo) {
  Served served;
  const VgpuAnswer made = served.Import("2\nclient1 0.3 0.6 1073741824\nclient2 0.2 1.0 24 0\n");
  ASSERT_EQ(made.code, CallCode::kOk) << made.sentence;
  ASSERT_EQ(made.vgpus.size(), 2u);
  EXPECT_EQ(made.vgpus[0].vgpu.spec,
            (VgpuSpec{.name = "client1", .request = 0.3, .limit = 0.6, .memory_bytes = uint64_t{1} << 30}));
}

TEST(VgpuApi, AFileThatCannotBeImportedLeavesEverythingAsItWas) {
  Served served;
  ASSERT_EQ(served.server.TakeFile("[[vgpu]]\nname = 'of-file'\nrequest = 0.2\n").code, StatusCode::kOk);
  ASSERT_EQ(served.Create("of-api", {.request = 0.2}).code, CallCode::kOk);
  ASSERT_EQ(served.Create("gone", {}).code, CallCode::kOk);
  served.server.Begin("gone");
  ASSERT_EQ(served.Delete("gone", true, 60).code, CallCode::kOk);
  const VgpuList before = served.api.All();
  const std::string good = "[[vgpu]]\nname = 'good'\nrequest = 0.1\n";
  const std::tuple<std::string, CallCode, std::string> wrong[] = {
      {"", CallCode::kInvalidArgument, "my.toml: there is no vGPU in it"},
      {"# nothing\n", CallCode::kInvalidArgument, "my.toml: there is no vGPU in it"},
      {"0\n", CallCode::kInvalidArgument, "my.toml: there is no vGPU in it"},
      {"vgpu", CallCode::kInvalidArgument, "my.toml: line 1: "},
      {std::string(1, '\xff'), CallCode::kInvalidArgument, "my.toml: line 1: "},
      {std::string(100'000, '['), CallCode::kInvalidArgument, "my.toml: 100000 bytes are 34464 more than 65536"},
      {"a = " + std::string(60'000, '['), CallCode::kInvalidArgument, "my.toml: line 1: "},
      {good + "[[vgpu]]\nname = 'b'\nrequest = 2\n", CallCode::kInvalidArgument,
       "my.toml: line 4: vGPU 'b': request 2 is 1 above 1"},
      {good + "[[vgpu]]\nname = 'b'\nshare = 2\n", CallCode::kInvalidArgument, "my.toml: line 6: 'share' is no field of a vGPU"},
      {good + "[[vgpu]]\nname = 'b'\ngpu = 7\n", CallCode::kInvalidArgument, "my.toml: line 6: "},
      {good + good, CallCode::kInvalidArgument, "my.toml: line 4: name 'good' stands in line 1 already"},
      {good + "[[vgpu]]\nname = 'default'\n", CallCode::kInvalidArgument, "my.toml: line 4: name 'default'"},
      {"2\na 0.1 1 0\n", CallCode::kInvalidArgument, "my.toml: line 1: 2 lines are to follow, and 1 do"},
      {good + "[[vgpu]]\nname = 'of-api'\n", CallCode::kAlreadyExists,
       "my.toml: line 4: vGPU 'of-api' is there already, made by the api"},
      {good + "[[vgpu]]\nname = 'of-file'\n", CallCode::kAlreadyExists,
       "my.toml: line 4: vGPU 'of-file' is there already, made by the file"},
      {good + "[[vgpu]]\nname = 'gone'\n", CallCode::kFailedPrecondition,
       "my.toml: line 4: the vGPU 'gone' that was there before goes with its 1 session"},
      {good + "[[vgpu]]\nname = 'b'\nrequest = 0.6\n", CallCode::kResourceExhausted,
       "my.toml: line 4: vGPU 'b': request 0.6 is 0.11 too much"},
      {good + "[[vgpu]]\nname = 'b'\nmemory = '100GiB'\n", CallCode::kResourceExhausted,
       "my.toml: line 4: vGPU 'b': memory 100 GiB is"},
  };
  for (const auto& [text, code, words] : wrong) {
    const VgpuAnswer answer = served.Import(text);
    EXPECT_EQ(answer.code, code) << answer.sentence;
    EXPECT_THAT(answer.sentence, StartsWith(words));
    EXPECT_THAT(answer.vgpus, IsEmpty());
  }
  EXPECT_EQ(*served.api.All(), *before);
  const VgpuAnswer refused = served.Do({.kind = Kind::kImport, .holder = kUser, .text = good});
  EXPECT_EQ(refused.code, CallCode::kPermissionDenied);
  EXPECT_EQ(*served.api.All(), *before);
  EXPECT_EQ(served.Import(good).code, CallCode::kOk);
}

TEST(VgpuApi, AnImportThatComesAgainIsTheSameAnswer) {
  Served served;
  const std::string text = "[[vgpu]]\nname = 'a'\n";
  const VgpuAnswer first = served.Import(text, "once");
  ASSERT_EQ(first.code, CallCode::kOk);
  EXPECT_EQ(served.Import(text, "once"), first);
  const VgpuAnswer other = served.Import("[[vgpu]]\nname = 'b'\n", "once");
  EXPECT_EQ(other.code, CallCode::kAborted);
  EXPECT_THAT(other.sentence, HasSubstr("that of another request, about my.toml"));
  EXPECT_THAT(served.Names(kRoot), ElementsAre("a"));
}

TEST(VgpuApi, MoreVgpusThanThereMayBeAreNotImported) {
  Served served({.has_default = false});
  std::string text;
  for (size_t i = 0; i < kVgpusMax; ++i) text += fmt::format("[[vgpu]]\nname='v{}'\nrequest=0.001\n", i);
  const VgpuAnswer refused = served.Import(text + "[[vgpu]]\nname='more'\nrequest=0.001\n");
  EXPECT_EQ(refused.code, CallCode::kResourceExhausted) << refused.sentence;
  EXPECT_THAT(served.Names(kRoot), IsEmpty());
  const VgpuAnswer made = served.Import(text);
  EXPECT_EQ(made.code, CallCode::kOk) << made.sentence;
  EXPECT_EQ(served.Names(kRoot).size(), kVgpusMax);
}

TEST(VgpuApi, MoreVgpusThanAreKeptAreNotImported) {
  Served served({.has_default = false}, 8);
  std::string text;
  for (size_t i = 0; text.size() < 60'000; ++i) text += fmt::format("[[vgpu]]\nname='v{}'\ngpu={}\nrequest=0.001\n", i, i % 8);
  const VgpuAnswer refused = served.Import(text);
  EXPECT_EQ(refused.code, CallCode::kResourceExhausted);
  EXPECT_THAT(refused.sentence, HasSubstr("more than are kept: import fewer"));
  EXPECT_THAT(served.Names(kRoot), IsEmpty());
  const VgpuAnswer made = served.Import(text.substr(0, text.find("[[vgpu]]\nname='v500'")));
  EXPECT_EQ(made.code, CallCode::kOk) << made.sentence;
  served.server.Restart();
  served.server.GiveBack(served.server.kept());
  EXPECT_EQ(served.server.broker().book().vgpus().size(), 500u);
}

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
