#include <CLI/CLI.hpp>

#include "netaware/cli/keys_command.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(tls:// wants a certificate on both sides. The directory of the authority stays with whoever administers the servers; what it makes
for a server or a client are three files, certificate.pem, key.pem and authority.pem, for that host: /etc/tessera of a server that
root runs, else ~/.config/tessera of its user. Nobody else may read key.pem. Running gateways and placers notice new files by
themselves. 'renew' shows a certificate that ends to a placer that signs (tessera-placer --sign-with), and puts a new one in its
place; the key stays.

Exit codes: 0; 2 the command line was not understood; 78 files are there already, cannot be read or written, or are not what they
should be. Of renew: 71 the placer's address is not tls://HOST:PORT; 73 the certificate was not accepted or is not renewed, or a file
cannot be read or written; 74 the placer is of another release; 80 nobody answers there; 81 it was renewed a moment ago, or is valid
for as long as a new one

Examples:
  tessera keys authority ~/gpu-keys
  tessera keys server gpu7.example,10.0.0.7 --authority ~/gpu-keys
  tessera keys host gpu7.example --authority ~/gpu-keys      # a server of a pool, which also connects to the placer
  tessera keys client alice --authority ~/gpu-keys
  tessera keys show ~/.config/tessera/certificate.pem
  tessera keys renew --placer tls://pool.example:4190)";

}  // namespace

CLI::App* AddKeysCommand(CLI::App& app, KeysOptions* keys) {
  CLI::App* const command =
      app.add_subcommand("keys", "make an authority and certificates for tls://, renew one, or show what is in it");
  command->add_option("action", keys->action, "what to do")
      ->required()
      ->type_name("{authority,server,host,client,show,renew}")
      ->check(CLI::IsMember({"authority", "server", "host", "client", "show", "renew"}));
  command
      ->add_option(
          "subject", keys->subject,
          "authority: a directory; server, host: its names and addresses, with commas; client: a name; show: a file; renew: "
          "the directory of certificate, key and authority (default: where a client has them)")
      ->type_name("DIRECTORY|NAME[,...]|FILE");
  command->add_option("--authority", keys->authority, "directory of the authority that signs")
      ->type_name("DIRECTORY")
      ->capture_default_str();
  command
      ->add_option("--directory", keys->directory,
                   "where the files go (default: a directory of the first name, in that of the authority)")
      ->type_name("DIRECTORY");
  command->add_option("--name", keys->name, "authority: its name (default: Tessera authority of HOST)")->type_name("NAME");
  command->add_option("--days", keys->days, "how long it is valid (default: an authority ten years, others one)")
      ->type_name("DAYS")
      ->check(CLI::Range(1U, 36500U).description("1 to 36500"));
  command->add_flag("--force", keys->force, "overwrite files that are there");
  command->add_option("-o,--output", keys->output, "form of the output")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(kFooter);
  return command;
}

}  // namespace tessera
