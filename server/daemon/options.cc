#include "server/daemon/options.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string_view>
#include <vector>

#include "protocol/link/tcp_address.h"
#include "server/daemon/exit_codes.h"

namespace tessera {
namespace {

constexpr std::string_view kScheme = "unix:";

constexpr const char* kFooter = R"(When clients may connect, one line on stdout says where and names the devices; everything else is on stderr. Clients are processes
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
  tesserad --listen unix:/run/user/1000/tessera.sock --listen tcp://127.0.0.1:4180)";

// Takes the values of --listen apart. Empty, or a sentence for the user.
std::string TakeListen(const std::vector<std::string>& listen, Options* options) {
  for (const std::string& url : listen) {
    std::string* const to = url.starts_with(TcpAddress::kScheme) ? &options->gateway_url : &options->listen_path;
    if (to == &options->gateway_url) {
      if (const Result<TcpAddress> address = TcpAddress::Parse(url); !address.ok()) return address.status().message();
    } else if (!url.starts_with(kScheme) || url.size() == kScheme.size()) {
      return "cannot listen on '" + url + "': --listen takes unix:PATH, and tcp://HOST:PORT besides";
    }
    if (!to->empty()) return "there can be one --listen unix:PATH and one --listen tcp://HOST:PORT";
    *to = to == &options->gateway_url ? url : url.substr(kScheme.size());
  }
  return options->listen_path.empty() ? "--listen unix:PATH is required" : "";
}

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Runs the GPU work of Tessera clients on this machine.", "tesserad");
  app.set_version_flag("--version", std::string("tesserad ") + TESSERA_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.footer(kFooter);
  std::vector<std::string> listen;
  app.add_option("--listen", listen,
                 "Where clients connect: unix:PATH (the socket gets mode 0600); given a second time with tcp://HOST:PORT, a "
                 "tessera-gateway is started for clients on other hosts")
      ->type_name("unix:PATH|tcp://HOST:PORT")
      ->allow_extra_args(false);
  app.add_flag("--insecure", options->insecure,
               "Allow a tcp:// address beyond this host, though nothing that travels there is encrypted or authenticated");
  app.add_option("--driver", options->driver,
                 "The driver: cuda (libcuda.so.1), emulator (a GPU in software), the path of a library, or auto "
                 "(cuda when it has a device, else emulator)")
      ->type_name("auto|cuda|emulator|PATH")
      ->capture_default_str();
  app.add_option("--log", options->log_word, "What to log on stderr: debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--max-sessions", options->sessions_max, "Sessions at once; more clients are turned away")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U).description("1 to 4096"))
      ->capture_default_str();
  app.add_option("--grace", options->grace_s,
                 "Seconds that sessions get to end by themselves after SIGTERM or SIGINT, before they are ended")
      ->type_name("N")
      ->check(CLI::Range(0U, 86400U).description("0 to 86400"))
      ->capture_default_str();
  app.add_option("--sandbox", options->sandbox_word,
                 "What workers give up before they serve a client: auto (what this machine can do), require (everything, or no "
                 "server), off, or log (nothing, but tell what would be refused)")
      ->type_name("auto|require|off|log")
      ->capture_default_str();
  app.add_option("--worker-user", options->worker_user,
                 "Whom workers run as when root starts the server; root: whom it runs as itself")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--owner-fd", options->owner_fd)->group("");
  app.add_flag("--remove-directory", options->remove_directory)->group("");
  app.add_option("--worker-fd", options->worker_fd)->group("");
  app.add_option("--usage-fd", options->usage_fd)->group("");
  app.add_option("--shares-fd", options->shares_fd)->group("");
  app.add_option("--probe-fd", options->probe_fd)->group("");
  app.add_option("--monitor-fd", options->monitor_fd)->group("");
  app.add_option("--session", options->session)->group("");
  app.add_option("--parent-pid", options->parent_pid)->group("");
  app.add_option("--priorities", options->priorities)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    std::cerr << "tesserad: " << error.what() << ". See tesserad --help.\n";
    return kExitUsage;
  }
  if (!ParseLogLevel(options->log_word, &options->log_level)) {
    std::cerr << "tesserad: --log takes debug, info, warning, error or off, not '" << options->log_word << "'.\n";
    return kExitUsage;
  }
  if (!ParseSandboxMode(options->sandbox_word, &options->sandbox)) {
    std::cerr << "tesserad: --sandbox takes auto, require, off or log, not '" << options->sandbox_word << "'.\n";
    return kExitUsage;
  }
  if (options->worker_fd >= 0) {
    options->role = Options::Role::kWorker;
    return -1;
  }
  if (options->monitor_fd >= 0) {
    options->role = Options::Role::kMonitor;
    return -1;
  }
  if (options->probe_fd >= 0) {
    options->role = Options::Role::kProbe;
    return -1;
  }
  const std::string problem = TakeListen(listen, options);
  if (problem.empty()) return -1;
  std::cerr << "tesserad: " << problem << ". See tesserad --help.\n";
  return kExitUsage;
}

}  // namespace tessera
