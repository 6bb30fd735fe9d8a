// `tessera container make-cdi`: what a container gets of this installation, for engines that know the Container Device Interface
// (podman, docker, containerd, CRI-O).
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

// Where containers find the installation, and the keys.
inline constexpr char kInstallationInContainer[] = "/opt/tessera";
inline constexpr char kKeysInContainer[] = "/run/tessera-keys";

// The specification of the device tessera/gpu=default as JSON: the installation below `prefix` for reading, the directory of a
// server's socket, the keys, and the variables that have a program find them. Pure.
std::string CdiSpecification(const std::string& prefix, const ContainerOptions& options);

void AddContainerCommand(CLI::App& app, ContainerOptions* options);

// Prints it on stdout, with the server's address as it is meant (protocol/link/typed_address.h). Returns kExitOk, or a
// CliExitCode with one sentence on stderr.
int ContainerCommand(ContainerOptions options);

}  // namespace tessera
