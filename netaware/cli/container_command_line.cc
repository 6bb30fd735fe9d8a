#include <CLI/CLI.hpp>

#include "netaware/cli/container_command.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(What it prints belongs into a file of /etc/cdi (root) or $XDG_RUNTIME_DIR/cdi. Programs of the image find the GPUs of
the server by themselves; an LD_LIBRARY_PATH of the image is replaced.

Example:
  tessera container make-cdi > /etc/cdi/tessera.json
  podman run --device tessera/gpu=default IMAGE nvidia-smi)";

}  // namespace

void AddContainerCommand(CLI::App& app, ContainerOptions* options) {
  CLI::App* const command = app.add_subcommand("container", "describe this installation to engines of containers");
  command->add_option("action", options->action, "what to print: make-cdi, a specification of the Container Device Interface")
      ->required()
      ->type_name("{make-cdi}")
      ->check(CLI::IsMember({"make-cdi"}));
  command->add_option("--server", options->server, "what programs in the container use (default: unix:/run/tessera/tessera.sock)")
      ->type_name("ADDRESS");
  command->add_option("--keys", options->keys, "directory of certificate.pem, key.pem and authority.pem for a tls:// server")
      ->type_name("DIRECTORY");
  command->footer(kFooter);
}

}  // namespace tessera
