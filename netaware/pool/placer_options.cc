#include "netaware/pool/placer_options.h"

#include "protocol/base/printable.h"

namespace tessera {
namespace {

// The longest reason: a job's message contains it together with the placer's words.
constexpr size_t kReasonBytesMax = 160;

}  // namespace

void AddPlacerAddress(CLI::App& command, PoolOptions* options) {
  command
      .add_option("--placer", options->placer,
                  "the placer of the pool; a path alone is unix:PATH, a host alone tls://HOST:4190 "
                  "(default: $TESSERA_PLACER, else that of config.toml, else this user's own)")
      ->type_name("unix:PATH|tls://HOST:PORT");
}

void AddPlacer(CLI::App& command, PoolOptions* options) {
  AddPlacerAddress(command, options);
  AddIdentity(command, options);
}

void AddIdentity(CLI::App& command, PoolOptions* options) {
  command
      .add_option("--certificate", options->certificate,
                  "certificate to show at tls:// (default: $TESSERA_CERTIFICATE, else ~/.config/tessera/certificate.pem)")
      ->type_name("FILE");
  command.add_option("--key", options->key, "its private key (default: $TESSERA_KEY, else ~/.config/tessera/key.pem)")
      ->type_name("FILE");
  command
      .add_option("--authority", options->authority,
                  "certificate of who signed the placer's (default: $TESSERA_AUTHORITY, else ~/.config/tessera/authority.pem)")
      ->type_name("FILE");
}

void AddTextOrData(CLI::App& command, PoolOptions* options) {
  command.add_option("-o,--output", options->output, "form of the output")
      ->check(CLI::IsMember({"text", "json", "yaml"}))
      ->capture_default_str();
}

std::string CheckReason(const std::string& reason) {
  if (reason.size() > kReasonBytesMax) {
    return "it has " + std::to_string(reason.size()) + " bytes, and a job is told " + std::to_string(kReasonBytesMax) +
           " at most";
  }
  return Printable(reason) == reason ? "" : "'" + Printable(reason) + "' has characters that cannot be printed";
}

}  // namespace tessera
