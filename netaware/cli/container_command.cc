#include "netaware/cli/container_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/install_layout.h"
#include "netaware/cli/server_list.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUsualServer = "unix:/run/tessera/tessera.sock";
constexpr const char* kUnix = "unix:";

Json Mount(const std::string& host, const std::string& container) {
  return {{"hostPath", host}, {"containerPath", container}, {"options", {"bind", "ro", "nosuid", "nodev"}}};
}

// The paths of the unix: addresses in a list.
std::vector<std::string> SocketPaths(const std::string& servers) {
  std::vector<std::string> paths;
  for (size_t begin = 0; begin <= servers.size();) {
    const size_t end = std::min(servers.find(',', begin), servers.size());
    const std::string one = servers.substr(begin, end - begin);
    if (one.starts_with(kUnix)) paths.push_back(one.substr(std::string(kUnix).size()));
    begin = end + 1;
  }
  return paths;
}

}  // namespace

std::string CdiSpecification(const std::string& prefix, const ContainerOptions& options) {
  const std::string server = options.server.empty() ? kUsualServer : options.server;
  Json mounts = {Mount(prefix, kInstallationInContainer)};
  Json variables = {fmt::format("LD_LIBRARY_PATH={}/lib/client", kInstallationInContainer), "TESSERA_SERVER=" + server};
  // Mounts the socket's directory, because a restarted server makes a new socket there.
  for (const std::string& path : SocketPaths(server)) {
    const std::string directory = std::filesystem::path(path).parent_path();
    mounts.push_back(Mount(directory, directory));
  }
  if (!options.keys.empty()) {
    mounts.push_back(Mount(options.keys, kKeysInContainer));
    for (const auto& [variable, file] :
         {std::pair("CERTIFICATE", "certificate"), std::pair("KEY", "key"), std::pair("AUTHORITY", "authority")})
      variables.push_back(fmt::format("TESSERA_{}={}/{}.pem", variable, kKeysInContainer, file));
  }
  const Json device = {{"name", "default"}, {"containerEdits", {{"env", variables}, {"mounts", mounts}}}};
  return Json{{"cdiVersion", "0.5.0"}, {"kind", "tessera/gpu"}, {"devices", Json::array({device})}}.dump(2) + "\n";
}

int ContainerCommand(ContainerOptions options) {
  const Result<InstallLayout> layout = InstallLayout::Find();
  if (!layout.ok()) {
    std::fprintf(stderr, "tessera: %s.\n", layout.status().message().c_str());
    return kExitMissingLibrary;
  }
  const std::string typed = std::exchange(options.server, "");
  std::vector<std::string> servers;
  if (!typed.empty()) {
    if (const ServerProblem problem = SplitServers(typed, &servers); problem.exit_code != kExitOk) {
      std::fprintf(stderr, "tessera: container: %s\n", problem.sentence.c_str());
      return problem.exit_code;
    }
  }
  for (const std::string& server : servers) options.server += (options.server.empty() ? "" : ",") + server;
  std::vector<std::string> paths = SocketPaths(options.server);
  paths.push_back(options.keys.empty() ? "/" : options.keys);
  for (const std::string& path : paths) {
    if (path.starts_with('/')) continue;
    std::fprintf(stderr, "tessera: container: %s is not an absolute path, which a container needs: write it from / on\n",
                 path.c_str());
    return kExitUsage;
  }
  const std::string prefix = std::filesystem::path(layout.value().client_dir).parent_path().parent_path();
  std::fputs(CdiSpecification(prefix, options).c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
