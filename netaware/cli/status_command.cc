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
  if (const int code = ReachOrSay(options.server, options.link, &servers); code != kExitOk) return code;
  // One server is an object, several are a list.
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  for (const ReachedServer& one : servers) {
    json.push_back(ServerAsJson(one.address.url, one.report));
    text += DescribeServer(one.address.url, one.report);
  }
  if (options.output == "json") text = JsonText(servers.size() == 1 ? json.front() : json, 2) + "\n";
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
