#include "netaware/pool/keys_command_line.h"

namespace tessera {

void AddPlacerOfKeys(CLI::App& command, std::string* placer) {
  command
      .add_option(
          "--placer", *placer,
          "renew: the placer that signs, at its tls:// address; a host alone is tls://HOST:4190 (default: $TESSERA_PLACER)")
      ->type_name("tls://HOST:PORT");
}

void AddKeysRenew(CLI::App& app, PoolOptions* options) {
  CLI::App* const command = app.add_subcommand("keys", "renew a certificate");
  command->add_option("action", options->action)->required()->check(CLI::IsMember({"renew"}));
  command->add_option("subject", options->name)->type_name("DIRECTORY");
  AddPlacerOfKeys(*command, &options->placer);
  command->callback([options] { options->command = "keys"; });
}

}  // namespace tessera
