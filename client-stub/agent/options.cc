#include "client-stub/agent/options.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string_view>

namespace tessera {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

constexpr const char* kFooter = R"('tessera run --server tcp://HOST:PORT' starts an agent by itself. When programs may connect,
one line on stdout says where; everything else is on stderr. Programs are processes of the same user (or of root); they find the
agent through TESSERA_SERVER=unix:PATH. SIGTERM and SIGINT end it, with the sessions it carries.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not
  2  the command line was not understood
  4  the socket could not be bound

Example:
  tessera-agent --listen unix:/run/user/1000/tessera.sock --server tcp://127.0.0.1:4180)";

}  // namespace

int ParseAgentOptions(int argc, char** argv, AgentOptions* options) {
  CLI::App app("Takes the sessions of programs on this host to a server on another.", "tessera-agent");
  app.set_version_flag("--version", std::string("tessera-agent ") + TESSERA_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.footer(kFooter);
  std::string listen;
  std::string server;
  std::string log = "warning";
  app.add_option("--listen", listen, "Where programs connect: unix:PATH (the socket gets mode 0600)")->type_name("unix:PATH");
  app.add_option("--server", server, "The tessera-gateway of the server's host")->type_name("tcp://HOST:PORT");
  app.add_flag("--insecure", options->insecure,
               "Allow an address beyond this host, though nothing that travels there is encrypted or authenticated");
  app.add_option("--log", log, "What to log on stderr: debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--owner-fd", options->owner_fd)->group("");
  app.add_flag("--remove-directory", options->remove_directory)->group("");
  const auto refuse = [](const std::string& why) {
    std::cerr << "tessera-agent: " << why << ". See tessera-agent --help.\n";
    return kAgentUsage;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return kAgentOk;
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  if (!ParseLogLevel(log, &options->log_level)) {
    return refuse("--log takes debug, info, warning, error or off, not '" + log + "'");
  }
  if (listen.empty() || server.empty()) return refuse("--listen unix:PATH and --server tcp://HOST:PORT are required");
  if (!listen.starts_with(kUnixScheme) || listen.size() == kUnixScheme.size()) {
    return refuse("cannot listen on '" + listen + "': --listen takes unix:PATH");
  }
  options->listen_path = listen.substr(kUnixScheme.size());
  Result<TcpAddress> gateway = TcpAddress::Parse(server);
  if (!gateway.ok()) return refuse(gateway.status().message());
  options->gateway = *gateway;
  return -1;
}

}  // namespace tessera
