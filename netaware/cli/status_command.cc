#include "netaware/cli/status_command.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netaware/cli/server_check.h"
#include "netaware/cli/server_description.h"
#include "netaware/cli/server_list.h"
#include "protocol/link/link_address.h"

namespace tessera {

int StatusCommand(const StatusOptions& options) {
  std::string server = options.server;
  if (server.empty()) {
    const char* configured = getenv("TESSERA_SERVER");
    server = configured != nullptr ? configured : "";
  }
  std::vector<ReachedServer> servers;
  ServerProblem problem = {kExitUsage,
                           "there is no server to ask: give --server unix:PATH or " + LinkForms() + ", or set TESSERA_SERVER"};
  if (!server.empty()) problem = ReachServers(server, options.link, true, &servers);
  if (problem.exit_code != kExitOk) {
    if (!problem.sentence.empty()) std::fprintf(stderr, "tessera: %s\n", problem.sentence.c_str());
    return problem.exit_code;
  }
  // One server is an object, several are a list.
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  for (const ReachedServer& one : servers) {
    json.push_back(ServerAsJson(one.address.url, one.report));
    text += DescribeServer(one.address.url, one.report);
  }
  if (options.output == "json") text = (servers.size() == 1 ? json.front() : json).dump(2) + "\n";
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
