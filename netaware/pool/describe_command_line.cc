#include "netaware/pool/describe_command_line.h"

#include "netaware/pool/placer_options.h"

namespace tessera {
namespace {

constexpr const char* kDescribeFooter =
    R"(server  by its name: its addresses, whether it is offered, who has cordoned it and why, its GPUs and who has what of them
gpu     by its UUID, or as SERVER/NUMBER: what of it is granted, taken by others and free, and to whom
grant   by its id: its holder, what was asked, its state, and what it has of which server, with the sessions there
Of grants those are shown that 'tessera get grants' shows.

Exit codes: as of 'tessera get'; 81 there is none of that name

Examples:
  tessera describe server gpu7
  tessera describe gpu gpu7/0
  tessera describe grant 0123456789abcdef0123456789abcdef -o json)";

}  // namespace

void AddDescribeCommand(CLI::App& app, PoolOptions* options) {
  CLI::App* const describe = app.add_subcommand("describe", "show all of a server, a GPU or a grant of a pool");
  describe->add_option("what", options->what, "what it is")
      ->required()
      ->type_name("{server,gpu,grant}")
      ->check(CLI::IsMember({"server", "gpu", "grant"}));
  describe->add_option("name", options->name, "its name")->required()->type_name("NAME");
  AddTextOrData(*describe, options);
  AddPlacer(*describe, options);
  describe->footer(kDescribeFooter);
  describe->callback([options] { options->command = "describe"; });
}

}  // namespace tessera
