#include "netaware/cli/private_server.h"

#include <unistd.h>

#include <iterator>

#include "netaware/cli/companion.h"

namespace tessera {
namespace {

// Variables that select and order a process' devices. They are meant for the program, and are applied when its session begins.
// If the server applied them too, it would have no device where the program has none, and the remaining devices would be
// numbered a second time.
constexpr const char* kAppliedForClients[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"};
constexpr int kDaemonNoDevice = 3;  // an exit code of tesserad (server/daemon/README.md)

}  // namespace

ServerProblem PrivateServer::Start(const std::string& daemon, const std::string& driver, PrivateServer* server) {
  if (access(daemon.c_str(), F_OK) != 0) {
    return {kExitMissingLibrary, daemon +
                                     " is missing, and a private server needs it: name a server (--server, TESSERA_SERVER), "
                                     "or install it again (package tessera-server)"};
  }
  const Companion::Program program = {daemon,
                                      "the private server",
                                      {"--driver", driver, "--grace", "0"},
                                      {std::begin(kAppliedForClients), std::end(kAppliedForClients)},
                                      "the driver does not answer; look at it with nvidia-smi, or use the emulated GPU "
                                      "(--driver emulator)"};
  Companion companion;
  int exit_code = 0;
  ServerProblem problem = Companion::Start(program, &companion, &exit_code);
  if (exit_code == kDaemonNoDevice) problem.exit_code = kExitNoDevice;
  if (problem.exit_code != kExitOk) return problem;
  server->url = companion.url;
  const size_t devices = companion.line.find("devices: ");
  server->description = devices == std::string::npos ? companion.line : companion.line.substr(devices);
  return {};
}

}  // namespace tessera
