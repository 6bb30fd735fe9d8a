#include "netaware/pool/status_command_line.h"

#include "netaware/pool/placer_options.h"

namespace tessera {
namespace {

constexpr const char* kStatusFooter =
    R"(Of a server: --server, else TESSERA_SERVER. Of a pool, when no server is named: --placer, else TESSERA_PLACER, else that of
config.toml, else this user's own. Where there is none either: the server of this host at its default socket. A pool is shown as its servers with what of their GPUs' time (shares) and memory is granted, has
others (vGPUs that are no grant's), and is free; the requests that wait, and the grants with their holders and sessions: yours, or
everybody's if you are the placer's administrator or viewer. '-o wide' has a line for each GPU, and all grants.

Exit codes: 0; of a server 2, 71 to 74 as of 'tessera run'; of a pool as of 'tessera get')";

CLI::App* Add(CLI::App& app, const char* name, const char* what, PoolOptions* options) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("-o,--output", options->output, "form of the output; wide, yaml: of a pool")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
  AddPlacerAddress(*command, options);
  command->footer(kStatusFooter);
  command->callback([options, name] { options->command = name; });
  return command;
}

}  // namespace

CLI::App* AddStatusCommand(CLI::App& app, PoolOptions* options) {
  CLI::App* const status = Add(app, "status", "say what a server or a pool is, what it serves and how busy it is", options);
  status->add_flag("-w,--watch", options->watch, "of a pool: again each second, until Ctrl-C; json: an object a line");
  return status;
}

CLI::App* AddTopCommand(CLI::App& app, PoolOptions* options) {
  CLI::App* const top = Add(app, "top", "show the sessions of a server, or a pool and its grants, again and again", options);
  top->add_option("--interval", options->interval_s, "seconds between two looks")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0).description("0.1 to 3600"))
      ->capture_default_str();
  top->add_option("--sort", options->sort, "of a server: what comes first (default: session); keys s, m, l, a; q ends it")
      ->check(CLI::IsMember({"session", "memory", "load", "age"}));
  top->add_option("--count", options->count, "how often to look (default: until it is ended on a terminal, else once)")
      ->type_name("N");
  return top;
}

}  // namespace tessera
