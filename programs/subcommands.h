// The commands of a program that has some.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

namespace tessera {

// Those of `app`, hidden ones too.
inline std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace tessera
