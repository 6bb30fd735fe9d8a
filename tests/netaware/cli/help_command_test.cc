#include "netaware/cli/help_command.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Words = std::vector<std::string>;

TEST(CommandsAsOptions, HelpIsAnOptionOfTheCommand) {
  EXPECT_EQ(CommandsAsOptions({"help"}), (Words{"--help"}));
  EXPECT_EQ(CommandsAsOptions({"help", "run"}), (Words{"run", "--help"}));
  EXPECT_EQ(CommandsAsOptions({"help", "get", "gpus"}), (Words{"get", "gpus", "--help"}));
  EXPECT_EQ(CommandsAsOptions({"version"}), (Words{"--version"}));
}

TEST(CommandsAsOptions, OthersStay) {
  for (const Words& words : {Words{}, Words{"run", "help"}, Words{"help", "--help"}, Words{"version", "--help"}, Words{"--help"}})
    EXPECT_EQ(CommandsAsOptions(words), words);
}

}  // namespace
}  // namespace tessera
