#include "netaware/cli/help_command.h"

namespace tessera {

std::vector<std::string> CommandsAsOptions(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words[0] == "version" && words.size() == 1) return {"--version"};
  const bool has_options = words.size() > 1 && words[1].starts_with('-');  // options of the command itself: help --help
  if (words[0] != "help" || has_options) return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace tessera
