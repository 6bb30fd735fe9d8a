#include "netaware/cli/help_command.h"

namespace tessera {

std::vector<std::string> CommandsAsOptions(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words[0] == "version" && words.size() == 1) return {"--version"};
  if (words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace tessera
