#include "netaware/cli/status_command.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "netaware/cli/server_check.h"
#include "netaware/cli/server_reach.h"
#include "netaware/cli/server_description.h"

namespace tessera {

int StatusCommand(const StatusOptions& options) {
  std::string server = options.server;
  if (server.empty()) {
    const char* configured = getenv("TESSERA_SERVER");
    server = configured != nullptr ? configured : "";
  }
  ServerAddress address;
  ServerReport report;
  ServerProblem problem = {kExitUsage,
                           "there is no server to ask: give --server unix:PATH or tcp://HOST:PORT, or set TESSERA_SERVER"};
  if (!server.empty()) problem = ReachServer(server, options.insecure, &address);
  if (problem.exit_code == kExitOk) problem = CheckServer(address, true, &report);
  if (problem.exit_code != kExitOk) {
    if (!problem.sentence.empty()) std::fprintf(stderr, "tessera: %s\n", problem.sentence.c_str());
    return problem.exit_code;
  }
  const std::string text = options.output == "json" ? ServerAsJson(server, report).dump(2) + "\n" : DescribeServer(server, report);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
