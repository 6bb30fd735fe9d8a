// Scripts that complete a program's command line in bash, zsh and fish, made from what the program itself parses.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

// The shells there are scripts for, as CLI11 writes a choice.
inline constexpr const char* kShells = "{bash,zsh,fish}";

// The script for `shell`; empty for a shell that is none of kShells. An option is completed with the words in braces of its type
// name ("{auto,cuda}|PATH"), else with files. Options of the group "" are hidden. `app` has commands, or none.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace tessera
