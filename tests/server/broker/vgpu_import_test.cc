// The import call of the control API, in virtual time.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/broker/vgpu_api_fixture.h"

namespace tessera {
namespace {

using Kind = VgpuCall::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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

}  // namespace
}  // namespace tessera
