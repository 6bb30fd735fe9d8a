#include "netaware/cli/top_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "netaware/cli/server_description.h"
#include "netaware/cli/server_list.h"
#include "netaware/cli/server_reach.h"
#include "programs/repeated_view.h"

namespace tessera {
namespace {

using Use = ServerReport::Use;

// Adds what only a question about a single device tells: the load that each session makes.
ServerProblem AddLoads(const ServerAddress& address, ServerReport* report) {
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

// Looks at it again, also at one that did not answer before. What is wrong then is said when it is new.
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

std::string Age(uint64_t ms) {
  const uint64_t s = ms / 1000;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// A line for each session and device that it uses; one for a session that uses none.
std::string SessionTable(const ServerReport& report) {
  std::string text = fmt::format("{:>8} {:>8} {:>10} {:>6} {:>12} {:>6}  {}\n", "SESSION", "PID", "AGE", "DEVICE", "MEMORY",
                                 "LOAD", "PROGRAM, USER@HOST (NAME)");
  std::vector<ServerReport::Session> sessions = report.session_list;
  std::sort(sessions.begin(), sessions.end(), [](const auto& a, const auto& b) { return a.session < b.session; });
  for (const ServerReport::Session& session : sessions) {
    const std::string start = fmt::format("{:>8} {:>8} {:>10}", session.session, session.pid, Age(session.age_ms));
    const std::string whose = fmt::format("{}, {}", session.program, DescribeHolder(session));
    bool any = false;
    for (const Use& use : report.uses) {
      if (use.session != session.session) continue;
      any = true;
      const std::string memory = use.used_bytes != Use::kUnknown ? fmt::format("{} MiB", use.used_bytes >> 20) : "-";
      const std::string load = use.load.time_us != 0 ? fmt::format("{} %", use.load.sm_percent) : "-";
      text += fmt::format("{} {:>6} {:>12} {:>6}  {}\n", start, use.device, memory, load, whose);
    }
    if (!any) text += fmt::format("{} {:>6} {:>12} {:>6}  {}\n", start, "-", "-", "-", whose);
  }
  return text;
}

}  // namespace

int TopCommand(const TopOptions& options) {
  std::vector<ReachedServer> servers;
  int code = AskServers(options.server, options.link, &servers);
  RepeatedView view(options.interval_s, options.count, options.output == "text");
  for (bool is_first = true; view.Next(); is_first = false) {
    std::string text;
    code = kExitOk;
    bool any = false;
    for (ReachedServer& server : servers) {
      Look(options.link, is_first, &server);
      if (server.problem.exit_code == kExitOk) {
        any = true;
        text += DescribeDevices(server.address.url, server.report) + DescribeVgpus(server.report) + SessionTable(server.report) +
                DescribeOthers(server.report);
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
