// `tessera container make-cdi`: describes the parts of this installation that a container gets, for engines with the Container
// Device Interface (podman, docker, containerd, CRI-O).
//
// Source: https://github.com/cncf-tags/container-device-interface, SPEC.md 0.5.0.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

struct ContainerOptions {
  std::string action;  // make-cdi
  std::string server;  // or a list of them; empty: the socket of root's server, unix:/run/tessera/tessera.sock
  std::string keys;    // a directory with certificate.pem, key.pem and authority.pem, for tls://; empty: none
};

// The paths of the installation and the keys in a container.
inline constexpr char kInstallationInContainer[] = "/opt/tessera";
inline constexpr char kKeysInContainer[] = "/run/tessera-keys";

// The specification of the device tessera/gpu=default as JSON: the installation below `prefix`, read-only; the directory of a
// server's socket; the keys; and the variables with which programs find them. Pure.
std::string CdiSpecification(const std::string& prefix, const ContainerOptions& options);

void AddContainerCommand(CLI::App& app, ContainerOptions* options);

// Prints the specification on stdout, with the server's address in its full form (protocol/link/typed_address.h). Returns
// kExitOk, or a CliExitCode with one sentence on stderr.
int ContainerCommand(ContainerOptions options);

}  // namespace tessera
