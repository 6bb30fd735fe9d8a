#include "programs/unknown_word.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace tessera {
namespace {

class UnknownWordTest : public testing::Test {
 protected:
  UnknownWordTest() {
    app_.require_subcommand(1);
    CLI::App* const keys = app_.add_subcommand("keys", "");
    keys->add_option("action", action_)->check(CLI::IsMember({"show", "renew"}));
    keys->add_option("--placer", placer_);
    keys->add_option("--hidden", placer_)->group("");
    app_.add_subcommand("status", "");
  }
  std::string Say(std::vector<std::string> words) {
    if (const std::string unknown = UnknownCommand(app_, words); !unknown.empty()) return unknown;
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return WithNearest(app_, error);
    }
    return "";
  }
  CLI::App app_;
  std::string action_, placer_;
};

TEST_F(UnknownWordTest, ACommandIsNamed) {
  EXPECT_EQ(Say({"stauts", "--server"}), "there is no command 'stauts': the nearest is 'status'");
  EXPECT_EQ(Say({"a\x1b[2Jb"}), "there is no command 'a?[2Jb': the nearest is 'keys'");
  EXPECT_EQ(Say({"status"}), "");
}

TEST_F(UnknownWordTest, AnActionIsNamed) {
  const std::string said = Say({"keys", "shwo"});
  EXPECT_TRUE(said.ends_with(": the nearest is 'show'")) << said;
  EXPECT_NE(said.find("shwo"), std::string::npos);
}

TEST_F(UnknownWordTest, AnOptionIsNamedButNoHiddenOne) {
  const std::string said = Say({"keys", "show", "--palcer=x"});
  EXPECT_NE(said.find("--palcer=x"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with(": the nearest is '--placer'")) << said;
  EXPECT_TRUE(Say({"keys", "show", "--hiden"}).ends_with(": the nearest is '--help'"));
}

TEST_F(UnknownWordTest, OtherErrorsStayAsTheyAre) {
  EXPECT_EQ(UnknownCommand(app_, {}), "");
  EXPECT_EQ(UnknownCommand(app_, {"--help"}), "");
  EXPECT_EQ(Say({"keys", "--placer"}).find("nearest"), std::string::npos);
}

}  // namespace
}  // namespace tessera
