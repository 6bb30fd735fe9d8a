#include "server/gateway/options.h"

#include "programs/service_command_line.h"
#include "protocol/base/printable.h"
#include "protocol/link/resume_messages.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

static_assert(kResumeGraceSMax * uint64_t{1000} <= ResumeOffer::kGraceMsMax);

constexpr const char* kFooter =
    R"(When agents may connect, one line on stdout says where; everything else is on stderr. At tls:// whoever
shows a certificate of the authority may use the GPUs of the server, or who is named by --allow; at tcp:// whoever reaches it. SIGTERM and SIGINT end it, with the sessions it carries;
SIGHUP starts the process that carries them anew, from the program's file: programs notice a pause.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not, or the process that carries sessions ended at once again and again
  2  the command line was not understood
  4  the address could not be bound, or is refused without --insecure; certificate, key or authority cannot be used

Example:
  tessera-gateway --listen gpu7 --server /run/user/1000/tessera.sock)";

}  // namespace

int ParseGatewayOptions(int argc, char** argv, GatewayOptions* options) {
  ServiceCommandLine line("tessera-gateway", "Lets programs on other hosts use a tesserad of this one.", kFooter, *options);
  std::string listen;
  std::string server;
  line.app()
      .add_option("--listen", listen, "Where agents connect; a host alone is tls://HOST:4180; port 0: one that is free")
      ->type_name(LinkForms("|"));
  line.app().add_option("--server", server, "The socket of tesserad: unix:PATH, or a path")->type_name("unix:PATH");
  line.AddLinkOptions(&options->link, true);
  line.AddSessionsMax(&options->sessions_max);
  line.AddResumeGrace(&options->resume_grace_s);
  std::string sandbox = "auto";
  line.AddSandbox(&sandbox);
  bool machine_root = false;
  line.app().add_flag("--machine-root", machine_root)->group("");
  line.AddCarrying();
  line.app().add_flag("--server-counts", options->server_counts)->group("");
  line.app().add_option("--parent-pid", options->parent_pid)->group("");
  line.app().add_option("--ready-fd", options->ready_fd)->group("");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(sandbox, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + sandbox + "'");
  }
  options->private_root = !machine_root;
  if (listen.empty() || server.empty()) return line.Refuse("--listen " + LinkForms() + " and --server unix:PATH are required");
  const std::string url = AddressMeantBy(listen);
  if (!HasLinkScheme(url)) {
    return line.Refuse("cannot listen on '" + Printable(listen) + "': --listen takes HOST, HOST:PORT, " + LinkForms());
  }
  Result<LinkAddress> address = LinkAddress::Parse(url);
  if (!address.ok()) return line.Refuse(address.status().message());
  options->listen = *address;
  options->server_path = UnixPathOf(AddressMeantBy(server));
  if (options->server_path.empty()) return line.Refuse("'" + server + "' is no server on this host: --server takes unix:PATH");
  return -1;
}

}  // namespace tessera
