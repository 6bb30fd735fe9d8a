// `tessera help [COMMAND]` and `tessera version`.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// The words of a command line behind the program's name, with such a command replaced by an option: "help run" becomes "run
// --help", "help" becomes "--help", "version" becomes "--version". Other command lines stay as they are, and so does such a
// command with options of its own. Pure.
std::vector<std::string> CommandsAsOptions(std::vector<std::string> words);

}  // namespace tessera
