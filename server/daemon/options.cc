#include "server/daemon/options.h"

#include <vector>

#include "protocol/cli/service_command_line.h"
#include "protocol/link/link_address.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(When clients may connect, one line on stdout says where and names the devices; everything else is on stderr. Clients are processes
of the same user (or of root). SIGTERM and SIGINT end the server: no new sessions, then --grace seconds for those that are open; a
second signal ends them at once.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not
  2  the command line was not understood
  3  no driver could be loaded, or it has no device
  4  the socket could not be bound
  5  --sandbox require, and this machine cannot do all of it

Environment: CUDA_VISIBLE_DEVICES selects the devices that are served.

Examples:
  tesserad --listen unix:/run/user/1000/tessera.sock --driver cuda
  tesserad --listen unix:/run/user/1000/tessera.sock --listen tls://gpu7:4180)";

// Takes the values of --listen apart. Empty, or a sentence for the user.
std::string TakeListen(const std::vector<std::string>& listen, Options* options) {
  for (const std::string& url : listen) {
    const bool beyond = HasLinkScheme(url);
    if (beyond) {
      if (const Result<LinkAddress> address = LinkAddress::Parse(url); !address.ok()) return address.status().message();
    } else if (UnixPathOf(url).empty()) {
      return "cannot listen on '" + url + "': --listen takes unix:PATH, and " + LinkForms() + " besides";
    }
    std::string& to = beyond ? options->gateway_url : options->listen_path;
    if (!to.empty()) return "there can be one --listen unix:PATH and one --listen " + LinkForms();
    to = beyond ? url : UnixPathOf(url);
  }
  return options->listen_path.empty() ? "--listen unix:PATH is required" : "";
}

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  ServiceCommandLine line("tesserad", "Runs the GPU work of Tessera clients on this machine.", kFooter, *options);
  CLI::App& app = line.app();
  std::vector<std::string> listen;
  app.add_option(
         "--listen", listen,
         "Where clients connect: unix:PATH (the socket gets mode 0600); given a second time with an address of a network, a "
         "tessera-gateway is started for clients on other hosts")
      ->type_name("unix:PATH|" + LinkForms("|"))
      ->allow_extra_args(false);
  line.AddLinkOptions(&options->link, true);
  app.add_option("--driver", options->driver,
                 "The driver: cuda (libcuda.so.1), emulator (a GPU in software), the path of a library, or auto "
                 "(cuda when it has a device, else emulator)")
      ->type_name("{auto,cuda,emulator}|PATH")
      ->capture_default_str();
  line.AddSessionsMax(&options->sessions_max);
  app.add_option("--grace", options->grace_s,
                 "Seconds that sessions get to end by themselves after SIGTERM or SIGINT, before they are ended")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, 86400U).description("0 to 86400"))
      ->capture_default_str();
  app.add_option("--sandbox", options->sandbox_word,
                 "What workers give up before they serve a client: auto (what this machine can do), require (everything, or no "
                 "server), off, or log (nothing, but tell what would be refused)")
      ->type_name("{auto,require,off,log}")
      ->capture_default_str();
  app.add_option("--worker-user", options->worker_user,
                 "Whom workers run as when root starts the server; root: whom it runs as itself")
      ->type_name("NAME")
      ->capture_default_str();
  line.AddOwner();
  app.add_option("--worker-fd", options->worker_fd)->group("");
  app.add_option("--usage-fd", options->usage_fd)->group("");
  app.add_option("--shares-fd", options->shares_fd)->group("");
  app.add_option("--probe-fd", options->probe_fd)->group("");
  app.add_option("--monitor-fd", options->monitor_fd)->group("");
  app.add_option("--session", options->session)->group("");
  app.add_option("--parent-pid", options->parent_pid)->group("");
  app.add_option("--priorities", options->priorities)->group("");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(options->sandbox_word, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + options->sandbox_word + "'");
  }
  options->role = options->worker_fd >= 0    ? Options::Role::kWorker
                  : options->monitor_fd >= 0 ? Options::Role::kMonitor
                  : options->probe_fd >= 0   ? Options::Role::kProbe
                                             : Options::Role::kDaemon;
  if (options->role != Options::Role::kDaemon) return -1;
  const std::string problem = TakeListen(listen, options);
  return problem.empty() ? -1 : line.Refuse(problem);
}

}  // namespace tessera
