#include "client-stub/agent/options.h"

#include "programs/service_command_line.h"
#include "protocol/base/printable.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

constexpr const char* kFooter = R"('tessera run --server tls://HOST:PORT' starts an agent by itself. When programs may connect,
one line on stdout says where; everything else is on stderr. Programs are processes of the same user (or of root); they find the
agent through TESSERA_SERVER=unix:PATH. SIGTERM and SIGINT end it, with the sessions it carries;
SIGHUP starts the process that carries them anew, from the program's file: programs notice a pause.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not, or the process that carries sessions ended at once again and again
  2  the command line was not understood
  4  the socket could not be bound

Example:
  tessera-agent --listen /run/user/1000/tessera.sock --server gpu7)";

}  // namespace

int ParseAgentOptions(int argc, char** argv, AgentOptions* options) {
  ServiceCommandLine line("tessera-agent", "Takes the sessions of programs on this host to a server on another.", kFooter,
                          *options);
  std::string listen;
  std::string server;
  line.app()
      .add_option("--listen", listen, "Where programs connect: unix:PATH, or a path (the socket gets mode 0600)")
      ->type_name("unix:PATH");
  line.app()
      .add_option("--server", server, "The tessera-gateway of the server's host; a host alone is tls://HOST:4180")
      ->type_name(LinkForms("|"));
  line.AddLinkOptions(&options->link, false);
  // An option for measurements. README.md describes it; the help does not.
  line.app().add_option("--impair", options->link.impair)->group("");
  std::string sandbox = "auto";
  line.AddSandbox(&sandbox);
  line.AddOwner();
  line.AddCarrying();
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(sandbox, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + sandbox + "'");
  }
  if (listen.empty() || server.empty()) return line.Refuse("--listen unix:PATH and --server " + LinkForms() + " are required");
  options->listen_path = UnixPathOf(AddressMeantBy(listen));
  if (options->listen_path.empty()) return line.Refuse("cannot listen on '" + listen + "': --listen takes unix:PATH");
  const std::string url = AddressMeantBy(server);
  if (!HasLinkScheme(url)) {
    return line.Refuse("'" + Printable(server) + "' is no gateway on another host: --server takes HOST, HOST:PORT, " +
                       LinkForms());
  }
  Result<LinkAddress> gateway = LinkAddress::Parse(url);
  if (!gateway.ok()) return line.Refuse(gateway.status().message());
  options->gateway = *gateway;
  if (!options->link.impair.empty()) {
    const Result<Impairment> impairment = Impairment::Parse(options->link.impair);
    if (!impairment.ok()) return line.Refuse(impairment.status().message());
    options->impairment = impairment.value();
  }
  return -1;
}

}  // namespace tessera
