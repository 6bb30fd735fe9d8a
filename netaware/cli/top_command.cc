#include "netaware/cli/top_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "netaware/cli/server_description.h"
#include "netaware/cli/server_list.h"
#include "netaware/cli/server_reach.h"
#include "netaware/cli/top_table.h"
#include "programs/repeated_view.h"

namespace tessera {
namespace {

using Use = ServerReport::Use;

// Adds the load of each session, which only the answer about a single device contains.
ServerProblem AddLoads(const ServerUrls& address, ServerReport* report) {
  for (uint32_t device = 0; device < report->readings.size(); ++device) {
    ServerReport details;
    const ServerProblem problem = CheckServer(address, ServerQuery::Ask::kDetails, &details, device);
    if (problem.exit_code != kExitOk) return problem;
    for (Use& use : report->uses) {
      if (use.device != device) continue;
      const auto same = std::find_if(details.uses.begin(), details.uses.end(),
                                     [&](const Use& other) { return other.session == use.session && other.device == device; });
      if (same != details.uses.end()) use.load = same->load;
    }
  }
  return {};
}

// Queries the server again, also one that did not answer before. A problem is printed if it differs from the last one.
void Look(const LinkOptions& link, bool is_first, ReachedServer* server) {
  const std::string before = server->problem.sentence;
  if (!is_first) {
    server->problem = {};
    if (!server->address.local_url.starts_with(kUnixScheme))
      server->problem = ReachServer(server->address.url, link, &server->address);
    if (server->problem.exit_code == kExitOk)
      server->problem = CheckServer(server->address, ServerQuery::Ask::kState, &server->report);
  }
  if (server->problem.exit_code == kExitOk) server->problem = AddLoads(server->address, &server->report);
  if (server->problem.sentence != before) std::fprintf(stderr, "tessera: %s\n", server->problem.sentence.c_str());
}

// On a terminal with fewer columns, vGPUs have fewer columns, too.
constexpr size_t kWide = 110;

}  // namespace

int TopCommand(const TopOptions& options) {
  std::vector<ReachedServer> servers;
  int code = AskServers(options.server, options.link, &servers);
  RepeatedView view(options.interval_s, options.count, options.output == "text");
  TopOrder order = TopOrderOf(options.sort).value_or(TopOrder::kSession);
  for (bool is_first = true; view.Next(); is_first = false) {
    order = TopOrderOf(view.key()).value_or(order);
    const bool narrow = view.width() != 0 && view.width() < kWide;
    std::string text;
    code = kExitOk;
    bool any = false;
    for (ReachedServer& server : servers) {
      Look(options.link, is_first, &server);
      if (server.problem.exit_code == kExitOk) {
        any = true;
        text += DescribeDevices(server.address.url, server.report) + DescribeVgpus(server.report, narrow) +
                SessionTable(server.report, order) + DescribeOthers(server.report);
        continue;
      }
      text += server.problem.sentence + "\n";
      if (code == kExitOk) code = server.problem.exit_code;
    }
    if (!any) break;
    if (options.output == "json") text = JsonText(ServersAsJson(servers), -1) + "\n";
    std::fputs(view.Drawn(text).c_str(), stdout);
    std::fflush(stdout);
  }
  return code;
}

}  // namespace tessera
