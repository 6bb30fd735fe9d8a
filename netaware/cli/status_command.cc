#include "netaware/cli/status_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netaware/cli/server_description.h"
#include "netaware/cli/server_list.h"

namespace tessera {

int StatusCommand(const StatusOptions& options) {
  std::vector<ReachedServer> servers;
  const int code = AskServers(options.server, options.link, &servers);
  if (servers.empty()) return code;
  std::string text;
  for (const ReachedServer& one : servers) {
    if (one.problem.exit_code == kExitOk) text += DescribeServer(one.address.url, one.report);
  }
  if (options.output == "json") text = JsonText(ServersAsJson(servers), 2) + "\n";
  std::fputs(text.c_str(), stdout);
  return code;
}

}  // namespace tessera
