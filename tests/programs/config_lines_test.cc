#include "programs/config_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

using Kind = ConfigLine::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string_view> kKeys = {"placer", "gpus", "gpu-model", "same-server"};

Result<std::vector<ConfigLine>> Parse(std::string_view text) { return ParseConfigLines(text, "/c.toml", kKeys); }

constexpr std::string_view kAll =
    "# whom to ask\r\n"
    "placer = \"unix:/a#b \\\"c\\\" \\\\\"  # not behind this\n"
    "\n"
    "\tgpus=2\n"
    "gpu-model = [ 'NVIDIA H200', # the large one\n"
    "  \"A,B\",\n"
    "]\n"
    "same-server = true";

TEST(ConfigLines, ValuesOfEachKind) {
  const auto lines = Parse(kAll);
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  ASSERT_EQ(lines.value().size(), 4U);
  const ConfigLine& placer = lines.value()[0];
  EXPECT_EQ(placer.line, 2);
  EXPECT_EQ(placer.kind, Kind::kText);
  EXPECT_THAT(placer.values, ElementsAre("unix:/a#b \"c\" \\"));
  EXPECT_EQ(lines.value()[1].kind, Kind::kNumber);
  EXPECT_EQ(lines.value()[1].line, 4);
  EXPECT_EQ(lines.value()[2].kind, Kind::kList);
  EXPECT_THAT(lines.value()[2].values, ElementsAre("NVIDIA H200", "A,B"));
  EXPECT_EQ(lines.value()[3].kind, Kind::kTruth);
  EXPECT_EQ(lines.value()[3].line, 8);
  EXPECT_TRUE(Parse("").ok());
  EXPECT_TRUE(Parse("\n# nothing\n").ok());
  EXPECT_TRUE(Parse("gpu-model = []").ok());
  for (const char* number : {"0", "-1", "+2", "0.5", "12.25"}) {
    const auto one = Parse(std::string("gpus = ") + number);
    ASSERT_TRUE(one.ok()) << number;
    EXPECT_EQ(one.value()[0].kind, Kind::kNumber);
  }
}

TEST(ConfigLines, WhatIsWrongHasFileLineAndKey) {
  const std::pair<std::string, std::string> cases[] = {
      {"plaser = 'x'", "line 1: there is no key 'plaser': the nearest is 'placer'"},
      {"gpus = 1\n\ngpus = 2", "line 3: the key 'gpus' is in line 1 already"},
      {"[run]", "line 1: there are no sections"},
      {"= 2", "line 1: '= 2' is no setting"},
      {"gpus", "line 1: '=' and a value are missing behind the key 'gpus'"},
      {"gpus =", "line 1: the value of the key 'gpus'"},
      {"gpus =\n2", "line 1: the value of the key 'gpus'"},
      {"gpus = 2 3", "line 1: something follows the value of the key 'gpus'"},
      {"gpus = two", "line 1: the value of the key 'gpus' is no text in quotes, no number"},
      {"gpus = 1.", "'gpus'"},
      {"gpus = 1e3", "'gpus'"},
      {"placer = unix:/x", "line 1: the value of the key 'placer'"},
      {"placer = \"unix:/x", "line 1: the text of the key 'placer' has no closing quote"},
      {"placer = \"unix:/x\ngpus = 1", "line 1: the text of the key 'placer' has no closing quote"},
      {"placer = \"a\\q\"", "neither \\\" nor \\\\"},
      {"placer = \"a\x1b[2J\"", "line 1: the text of the key 'placer' has a character that cannot be printed"},
      {"placer = 'a' 'b'", "something follows"},
      {"\ngpu-model = ['a',\n'b'", "line 2: the list of the key 'gpu-model' has no end"},
      {"gpu-model = ['a'\n'b']", "line 2: a comma is missing"},
      {"gpu-model = [1]", "something else than texts"},
      {"\x1b[2J = 1", "is no setting"},
  };
  for (const auto& [text, why] : cases) {
    const auto lines = Parse(text);
    ASSERT_FALSE(lines.ok()) << text;
    EXPECT_THAT(lines.status().message(), HasSubstr(why)) << text;
    EXPECT_TRUE(lines.status().message().starts_with("/c.toml, line ")) << lines.status().message();
    EXPECT_EQ(lines.status().message().find('\x1b'), std::string::npos) << text;
  }
}

// A file that is cut off says less, or is refused; it never says something else.
TEST(ConfigLines, CutOffAtEachByte) {
  const auto whole = Parse(kAll);
  int refused = 0;
  for (size_t end = 0; end < kAll.size(); ++end) {
    const auto part = Parse(kAll.substr(0, end));
    if (!part.ok()) {
      ++refused;
      continue;
    }
    for (size_t i = 0; i < part.value().size(); ++i) EXPECT_EQ(part.value()[i].values, whole.value()[i].values) << end;
  }
  EXPECT_GT(refused, 50);
}

TEST(ConfigLines, AnyBytes) {
  std::mt19937 random(7);
  const std::string some = "gpus=placer-model[]\"'\\#, \n\r\t\x01\xff" + std::string(1, '\0');
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string text;
    for (unsigned i = random() % 40; i > 0; --i) text += some[random() % some.size()];
    (void)Parse(text).ok();
  }
}

}  // namespace
}  // namespace tessera
