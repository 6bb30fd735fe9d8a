#include "netaware/node/options.h"

#include <filesystem>

#include "netaware/node/host_id.h"
#include "programs/service_command_line.h"
#include "programs/state_path.h"
#include "protocol/base/host_digest.h"
#include "protocol/link/tls/key_files.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(When it has its ledger, one line on stdout says so; everything else is on stderr. SIGTERM and SIGINT end it; what was
granted goes on, and the next one takes it over. SIGHUP connects to the placer anew, with the files of keys as they are then.

Exit codes:
  0  ended after SIGTERM or SIGINT, or with the tesserad that has started it
  1  a system call failed that should not, the helper has ended, or --sandbox require and this machine cannot do all of it
  2  the command line was not understood
  4  the ledger cannot be used: another node has it, or it is damaged, or not to be written

Example:
  tessera-node --placer tls://placer.example:4190 --server unix:/run/tessera/tessera.sock --address tls://gpu7.example:4180)";

}  // namespace

int ParseNodeOptions(int argc, char** argv, NodeOptions* options) {
  ServiceCommandLine line("tessera-node",
                          "Makes a host, and a tesserad there, known to a placer, and carries out what that orders.", kFooter,
                          *options);
  line.app().remove_option(line.app().get_option("--hello-timeout"));  // this program accepts no connections
  std::string server;
  line.app()
      .add_option("--placer", options->placer,
                  "Where the placer listens; a path alone is unix:PATH, a host alone tls://HOST:4190")
      ->type_name("unix:PATH|tls://HOST:PORT");
  line.app()
      .add_option("--server", server, "The socket of tesserad: unix:PATH, or a path (default: this host has none, and no GPU)")
      ->type_name("unix:PATH");
  line.app()
      .add_option("--control", options->control,
                  "The socket of its control API (default: that of --server, with .control at the end)")
      ->type_name("unix:PATH");
  line.app()
      .add_option("--address", options->addresses,
                  "An address at which jobs reach the server, as 'tessera run --server' takes it; once for each (default: "
                  "--server, so that only jobs of this host do)")
      ->type_name("URL")
      ->allow_extra_args(false);
  line.app()
      .add_option("--state", options->state,
                  "The ledger of this server's grants (default: a file for --server in the directory of state)")
      ->type_name("FILE");
  line.app()
      .add_option("--host-id", options->host_id,
                  "How the server is called in the pool, no other server's (default: the host's name and a number)")
      ->type_name("NAME");
  line.AddKeyOptions(&options->keys);
  std::string sandbox = "auto";
  line.AddSandbox(&sandbox, "it gives up before it hears of the placer");
  bool machine_root = false;
  line.app().add_flag("--machine-root", machine_root)->group("");
  line.app().add_option("--daemon-fd", options->daemon_fd)->group("");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(sandbox, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + sandbox + "'");
  }
  options->private_root = !machine_root;
  if (options->placer.empty()) return line.Refuse("--placer unix:PATH|tls://HOST:PORT is required");
  if (server.empty() && !(options->control.empty() && options->addresses.empty())) {
    return line.Refuse("--control and --address are of a server: name it with --server unix:PATH");
  }
  options->placer = AddressMeantBy(options->placer, kPlacerPort);
  if (UnixPathOf(options->placer).empty() && !options->placer.starts_with("tls://")) {
    return line.Refuse("'" + options->placer + "' is no address of a placer: --placer takes unix:PATH or tls://HOST:PORT");
  }
  if (!server.empty()) {
    server = AddressMeantBy(server);
    options->server_path = UnixPathOf(server);
    if (options->server_path.empty()) {
      return line.Refuse("'" + server + "' is no server on this host: --server takes unix:PATH");
    }
    if (options->control.empty()) options->control = server + ".control";
    options->control = AddressMeantBy(options->control, kControlPort);
    if (UnixPathOf(options->control).empty()) {
      return line.Refuse("'" + options->control + "' is no control API on this host: --control takes unix:PATH");
    }
  }
  for (std::string& address : options->addresses) address = AddressMeantBy(address);
  // These values are computed before the sandbox: in it the process may have another user, with another home directory, and
  // sees no files.
  options->host = HostDigest();
  options->keys = LocateKeyFiles(TlsRole::kClient, options->keys);
  if (options->addresses.empty() && !server.empty()) {
    std::error_code error;
    options->addresses = {"unix:" + std::filesystem::absolute(options->server_path, error).lexically_normal().string()};
  }
  // A host without a server has one ledger and one host id, for the path "/".
  const std::string path = server.empty() ? "/" : options->server_path;
  if (options->host_id.empty()) options->host_id = HostIdHere(path);
  if (!IsHostId(options->host_id)) {
    return line.Refuse("--host-id takes 1 to 63 characters that can be printed, not '" + options->host_id + "'");
  }
  constexpr size_t kSqliteEnd = 4;  // "-wal"
  if (options->state.empty()) options->state = StatePath(path, ".grants", kSqliteEnd);
  if (options->state.empty())
    return line.Refuse("there is no directory of state for this user and server: name a file with --state");
  return -1;
}

}  // namespace tessera
