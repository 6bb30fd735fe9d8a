// The `tessera` command.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/run_command.h"

int main(int argc, char** argv) {
  CLI::App app{"Tessera runs unmodified CUDA programs on hosts without a GPU.", "tessera"};
  app.set_version_flag("--version", std::string("tessera ") + TESSERA_VERSION);
  app.require_subcommand(1);

  tessera::RunOptions run;
  CLI::App* run_command = app.add_subcommand("run", "run a program with the GPUs of a server");
  run_command->add_option("--server", run.server, "unix:PATH of a running tesserad (default: $TESSERA_SERVER, else a private server)");
  run_command->add_option("--driver", run.driver, "GPU of a private server: auto, cuda or emulator")
      ->check(CLI::IsMember({"auto", "cuda", "emulator"}))
      ->capture_default_str();
  run_command->add_flag("--stats", run.stats, "print calls, round trips and bytes when the program ends");
  run_command->add_flag("-q,--quiet", run.quiet, "do not say which GPU is used");
  run_command->add_option("command", run.command, "the program and its arguments, after --")->required();
  run_command->positionals_at_end();
  run_command->footer("Exit code: the program's own; 71 to 77, 126 and 127 when it could not be started (see the README).");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? tessera::kExitOk : tessera::kExitUsage;
  }
  return tessera::RunCommand(run);
}
