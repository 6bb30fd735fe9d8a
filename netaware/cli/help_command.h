// `tessera help [COMMAND]` and `tessera version`.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// The words of a command line behind the program's name, with the option in the place of such a command: of "help run"
// "run --help", of "help" "--help", of "version" "--version". All others are what they were, and options of
// such a command are its own. Pure.
std::vector<std::string> CommandsAsOptions(std::vector<std::string> words);

}  // namespace tessera
