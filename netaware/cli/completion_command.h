// `tessera completion SHELL`: scripts that complete the command line, made from its description, so that they cannot differ.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

// Prints the script for "bash", "zsh" or "fish" on stdout. Returns the exit code.
int CompletionCommand(const CLI::App& app, const std::string& shell);

}  // namespace tessera
