#include "netaware/pool/server_command_line.h"

#include <string>

#include "netaware/job/job_options.h"
#include "netaware/pool/placer_options.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr const char* kCordonFooter =
    R"(Nothing new is placed at a cordoned server, and what runs there goes on. It stays so when the placer or the server is started again,
until 'tessera uncordon'. Only the placer's administrators may; 'tessera get servers' has the names.

Exit codes: as of 'tessera get'; 81 the pool has no such server

Examples:
  tessera cordon gpu7 --reason "its fans are changed"
  tessera uncordon gpu7)";

constexpr const char* kDrainFooter =
    R"(Nothing new is placed there, as by 'tessera cordon', and the grants that are there are told of. Those that are left at the deadline lose
their GPUs, and their jobs are told the reason. 'tessera uncordon' ends a drain, a second drain takes the first one's place.

Exit codes: as of 'tessera get'; 81 the pool has no such server

Examples:
  tessera drain gpu7 --dry-run                                   # who has GPUs there
  tessera drain gpu7 --reason "gpu7 is repaired" --deadline 2h
  tessera drain gpu7 --deadline 0                                # now)";

constexpr const char* kRemoveFooter =
    R"(A job that only a server which is away could run waits for that server. 'tessera remove' tells the pool that it will not come back.
A server that is connected is not removed, nor one that has grants: 'tessera drain SERVER --deadline 0' ends these. A removed server
that comes back joins as a new one, without its cordon.

Exit codes: as of 'tessera get'; 81 the pool has no such server, or it is connected, or has grants

Examples:
  tessera remove gpu7)";

CLI::App* AddServerCommand(CLI::App& app, const char* name, const char* what, PoolOptions* options) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("server", options->server, "the server's name in the pool")
      ->required()
      ->type_name("SERVER")
      ->check([](const std::string& server) { return server.empty() ? std::string("a server's name is not empty") : ""; });
  AddTextOrData(*command, options);
  AddPlacer(*command, options);
  command->callback([options, name] { options->command = name; });
  return command;
}

void AddReason(CLI::App& command, PoolOptions* options) {
  command.add_option("--reason", options->reason, "why: whoever waits, or loses his GPUs, is told")
      ->type_name("TEXT")
      ->check(CheckReason);
}

}  // namespace

void AddServerCommands(CLI::App& app, PoolOptions* options) {
  CLI::App* const cordon = AddServerCommand(app, "cordon", "place nothing new at a server of a pool", options);
  AddReason(*cordon, options);
  cordon->footer(kCordonFooter);

  CLI::App* const uncordon = AddServerCommand(app, "uncordon", "offer a server of a pool again", options);
  uncordon->footer(kCordonFooter);

  CLI::App* const drain = AddServerCommand(app, "drain", "take what runs there off a server of a pool", options);
  AddReason(*drain, options);
  drain
      ->add_option_function<std::string>(
          "--deadline",
          [options](const std::string& text) {
            int64_t within_ms = 0;
            if (!ParseWait(text, &within_ms))
              throw CLI::ValidationError("--deadline",
                                         "'" + Printable(text) + "' is not a time with its unit (s, m, h), such as 30m, or 0");
            options->deadline_ms = within_ms;
          },
          "when grants that are left end, from now; 0: at once (default: never)")
      ->type_name("TIME");
  drain->add_flag("--dry-run", options->dry_run, "change nothing; show what would end");
  drain->footer(kDrainFooter);

  AddServerCommand(app, "remove", "forget a server of a pool that is gone for good", options)->footer(kRemoveFooter);
}

}  // namespace tessera
