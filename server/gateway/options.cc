#include "server/gateway/options.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string_view>

namespace tessera {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

constexpr const char* kFooter = R"(When agents may connect, one line on stdout says where; everything else is on stderr. Whoever reaches
the address may use the GPUs of the server: there is no authentication yet. SIGTERM and SIGINT end it, with the sessions it carries.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not
  2  the command line was not understood
  4  the address could not be bound, or is refused without --insecure

Example:
  tessera-gateway --listen tcp://127.0.0.1:4180 --server unix:/run/user/1000/tessera.sock)";

}  // namespace

int ParseGatewayOptions(int argc, char** argv, GatewayOptions* options) {
  CLI::App app("Lets programs on other hosts use a tesserad of this one.", "tessera-gateway");
  app.set_version_flag("--version", std::string("tessera-gateway ") + TESSERA_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.footer(kFooter);
  std::string listen;
  std::string server;
  std::string log = "warning";
  app.add_option("--listen", listen, "Where agents connect; port 0: one that is free")->type_name("tcp://HOST:PORT");
  app.add_option("--server", server, "The socket of tesserad")->type_name("unix:PATH");
  app.add_flag("--insecure", options->insecure,
               "Allow an address beyond this host, though nothing that travels there is encrypted or authenticated");
  app.add_option("--max-sessions", options->sessions_max, "Sessions at once; more clients are turned away")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U).description("1 to 4096"))
      ->capture_default_str();
  app.add_option("--log", log, "What to log on stderr: debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--parent-pid", options->parent_pid)->group("");
  app.add_option("--ready-fd", options->ready_fd)->group("");
  const auto refuse = [](const std::string& why) {
    std::cerr << "tessera-gateway: " << why << ". See tessera-gateway --help.\n";
    return kGatewayUsage;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return kGatewayOk;
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  if (!ParseLogLevel(log, &options->log_level)) {
    return refuse("--log takes debug, info, warning, error or off, not '" + log + "'");
  }
  if (listen.empty() || server.empty()) return refuse("--listen tcp://HOST:PORT and --server unix:PATH are required");
  Result<TcpAddress> address = TcpAddress::Parse(listen);
  if (!address.ok()) return refuse(address.status().message());
  options->listen = *address;
  if (!server.starts_with(kUnixScheme) || server.size() == kUnixScheme.size()) {
    return refuse("'" + server + "' is no server on this host: --server takes unix:PATH");
  }
  options->server_path = server.substr(kUnixScheme.size());
  return -1;
}

}  // namespace tessera
