#include "netaware/pool/pool_command_line.h"

#include "netaware/pool/describe_command_line.h"
#include "netaware/pool/event_command_line.h"
#include "netaware/pool/place_command_line.h"
#include "netaware/pool/placer_options.h"
#include "netaware/pool/server_command_line.h"

namespace tessera {
namespace {

constexpr const char* kGetFooter =
    R"(servers  of the pool: its id and addresses, how many GPUs it has, and whether it is offered to jobs, or why not
gpus     a row for each: of its time and memory what the placer has granted, what others have (vGPUs that are no grant's, and
         programs without one), and what is free. A GPU's number is its server's, as in 'tessera status'
grants   yours, or everybody's if you are the placer's administrator or viewer: state, holder, GPUs, and why it waits
requests  of these, those that wait: what is asked for

--watch looks once a second. On a terminal it shows all again when something has changed; elsewhere it prints what has: rows, with
-o json an object a line, with -o yaml a document each. What is not there any more is said to have gone, in json "gone": true.

Exit codes: 0; 2 the command line, or config.toml, was not understood; 71 the address is neither unix:PATH nor tls://HOST:PORT; 73 not allowed, or a
certificate was not accepted; 74 the placer is of another release; 76 a part of the installation is missing; 80 nobody answers at the
placer's address within 5 s, or none is named

Environment:
  TESSERA_PLACER   the placer's address when there is no --placer
  TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY   files for tls://, when there is no --certificate, --key, --authority

Examples:
  tessera get gpus
  tessera get grants -o wide --watch
  tessera get servers -o json --placer tls://pool.example:4190)";

constexpr const char* kGrantsFooter =
    R"(release  ends a grant: your own, or, as the placer's administrator, another's. A job that runs loses its GPUs, one that waits ends.
         'tessera get grants' has the ids
revoke   ends another's, as the placer's administrator, with a reason that its job is told

Exit codes: as of 'tessera get'; 81 there is no such grant for you, or it has ended

Examples:
  tessera grants release 0123456789abcdef0123456789abcdef
  tessera grants release 0123456789abcdef0123456789abcdef --reason "gpu7 is repaired at noon"
  tessera grants revoke 0123456789abcdef0123456789abcdef --reason "it has run for a month")";

}  // namespace

void AddPoolCommands(CLI::App& app, PoolOptions* options) {
  CLI::App* const get = app.add_subcommand("get", "show the servers, GPUs and grants of a pool");
  get->add_option("what", options->what, "what to show")
      ->required()
      ->type_name("{servers,gpus,grants,requests}")
      ->check(CLI::IsMember({"servers", "gpus", "grants", "requests"}));
  get->add_option("-o,--output", options->output, "form of the output; wide: text with more columns")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
  get->add_flag("-w,--watch", options->watch, "again when something has changed, until Ctrl-C");
  AddPlacer(*get, options);
  get->footer(kGetFooter);
  get->callback([options] { options->command = "get"; });

  CLI::App* const grants = app.add_subcommand("grants", "end a grant of a pool");
  grants->add_option("action", options->action, "what to do")
      ->required()
      ->type_name("{release,revoke}")
      ->check(CLI::IsMember({"release", "revoke"}));
  grants->add_option("grant", options->grant, "the grant's id")->required()->type_name("ID");
  grants->add_option("--reason", options->reason, "what the job is told, when the grant is another's")
      ->type_name("TEXT")
      ->check(CheckReason);
  AddTextOrData(*grants, options);
  AddPlacer(*grants, options);
  grants->footer(kGrantsFooter);
  grants->callback([options] {
    if (options->action == "revoke" && options->reason.empty())
      throw CLI::ValidationError("grants revoke", "the job is told why it loses its GPUs: give --reason TEXT");
    options->command = "grants";
  });
  AddServerCommands(app, options);
  AddPlaceCommand(app, options);
  AddDescribeCommand(app, options);
  AddEventCommands(app, options);
}

}  // namespace tessera
