#include "netaware/service/options.h"

#include "programs/default_socket.h"
#include "programs/service_command_line.h"
#include "programs/state_path.h"
#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"
#include "protocol/link/typed_address.h"
#include "protocol/ticket/ticket.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(When jobs and servers may come, one line on stdout says where; everything else is on stderr. SIGTERM and SIGINT end it: running jobs
notice nothing, and go on to be known by the next one with the same store.

At unix: whoever may connect is the user whom the kernel names; at tls:// the name in the certificate. Root and this user may do
everything; others ask for GPUs, unless --policy says otherwise:
  [roles]
  "name:gpu7" = "server"     # tenant, server, viewer, admin, nobody
  others = "nobody"
  [users]
  "uid:1000" = "name:alice"  # what this user of this host asks for is hers, on servers of other hosts too

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not, the helper has ended, or --sandbox require and this machine cannot do all of it
  2  the command line was not understood
  4  an address could not be bound; the store, the policy or the files for tls:// cannot be used

Examples:
  tessera-placer
  tessera-placer --listen tls://pool.example:4190 --store sqlite:/var/lib/tessera/placer.db --policy /etc/tessera/policy.toml)";

constexpr std::string_view kSqlite = "sqlite:";

std::string TakeListen(const std::vector<std::string>& listen, PlacerOptions* options) {
  for (const std::string& typed : listen) {
    const std::string url = AddressMeantBy(typed, kPlacerPort);
    if (const std::string path = UnixPathOf(url); !path.empty()) {
      options->unix_paths.push_back(path);
    } else if (url.starts_with("tls://")) {
      if (const Result<LinkAddress> address = LinkAddress::Parse(url); !address.ok()) return address.status().message();
      options->tls_urls.push_back(url);
    } else {
      return "--listen takes " + std::string(kTypedForms) + ", unix:PATH or tls://HOST:PORT, not '" + Printable(typed) + "'";
    }
  }
  if (!listen.empty()) return "";
  options->unix_paths.push_back(UserSocketPath(DefaultSocket::kPlacer));
  return options->unix_paths[0].empty() ? "there is no XDG_RUNTIME_DIR for the socket, and this user's directory in /tmp is "
                                          "another's: say where with --listen unix:PATH"
                                        : "";
}

}  // namespace

int ParseOptions(int argc, char** argv, PlacerOptions* options) {
  ServiceCommandLine line("tessera-placer", "Finds GPUs of a pool of servers for jobs.", kFooter, *options);
  CLI::App& app = line.app();
  std::vector<std::string> listen;
  app.add_option("--listen", listen,
                 "Where jobs and servers come; a path alone is unix:PATH, a host alone tls://HOST:4190; once for each (default: "
                 "unix:/run/tessera/placer.sock of root, else "
                 "unix:$XDG_RUNTIME_DIR/tessera-placer.sock)")
      ->type_name("unix:PATH|tls://HOST:PORT")
      ->allow_extra_args(false);
  std::string store;
  app.add_option("--store", store,
                 "Where grants outlive the placer: sqlite:PATH, or memory, where they do not (default: a file in "
                 "$XDG_STATE_HOME/tessera, else /var/lib/tessera of root and ~/.local/state/tessera)")
      ->type_name("sqlite:PATH|memory");
  app.add_option("--policy", options->policy_path, "A file that says who may do what; what changes there is in force at once")
      ->type_name("FILE");
  app.add_option("--cluster", options->cluster, "The pool's name, in each ticket")->type_name("NAME")->capture_default_str();
  app.add_option("--ticket-life", options->ticket_s, "How long a ticket opens sessions before it is renewed")
      ->type_name("SECONDS")
      ->check(CLI::Range(10U, 86400U).description("10 to 86400"))
      ->capture_default_str();
  app.add_option("--audit-days", options->audit_days,
                 "How long it is remembered who did what ('tessera audit'); a million records at most")
      ->type_name("DAYS")
      ->check(CLI::Range(1U, 3650U).description("1 to 3650"))
      ->capture_default_str();
  app.add_option(
         "--sign-with", options->sign_with,
         "The directory of an authority and its key ('tessera keys authority'): whoever shows a certificate of it at tls:// "
         "gets a new one before that ends (nodes by themselves, 'tessera keys renew')")
      ->type_name("DIRECTORY");
  app.add_option("--sign-days", options->sign_days, "How long such a certificate is valid")
      ->type_name("DAYS")
      ->check(CLI::Range(1U, 365U).description("1 to 365"))
      ->capture_default_str();
  line.AddLinkOptions(&options->link, true);
  std::string sandbox = "auto";
  line.AddSandbox(&sandbox, "it gives up before it hears of anybody");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(sandbox, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + sandbox + "'");
  }
  if (const std::string wrong = TakeListen(listen, options); !wrong.empty()) return line.Refuse(wrong);
  if (options->cluster.empty() || options->cluster.size() > Ticket::kNameBytesMax ||
      Printable(options->cluster) != options->cluster)
    return line.Refuse("--cluster takes 1 to 63 characters that can be printed, not '" + Printable(options->cluster) + "'");
  if (store.starts_with(kSqlite) && store.size() > kSqlite.size()) {
    options->store_path = store.substr(kSqlite.size());
  } else if (store.empty()) {
    const std::string& first = options->unix_paths.empty() ? options->tls_urls[0] : options->unix_paths[0];
    options->store_path = StatePath(first, ".placer");
    if (options->store_path.empty()) return line.Refuse("there is no place for the store: say where with --store sqlite:PATH");
  } else if (store != "memory") {
    return line.Refuse("--store takes sqlite:PATH or memory, not '" + Printable(store) + "'");
  }
  return -1;
}

}  // namespace tessera
