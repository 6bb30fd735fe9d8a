#include "netaware/cli/sessions_command.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "netaware/cli/found_server.h"
#include "netaware/cli/server_list.h"
#include "netaware/cli/server_reach.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

bool ParseSession(const std::string& text, uint64_t* session) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *session);
  return error == std::errc() && stop == end && *session != 0;
}

}  // namespace

int SessionsCommand(const SessionsOptions& options) {
  uint64_t session = 0;
  if (!ParseSession(options.session, &session)) {
    return Refuse({kExitUsage, "'" + Printable(options.session) + "' is no number of a session: 'tessera top' shows them"});
  }
  std::string list = options.server;
  if (const char* const configured = getenv("TESSERA_SERVER"); list.empty() && configured != nullptr) list = configured;
  if (list.empty()) {
    const FoundServer found = FoundServer::Find();
    if (!found.url.empty()) found.Say();
    list = found.url;
  }
  if (list.empty()) {
    return Refuse({kExitUnreachable, "there is no server to ask, and none at " + FoundServer::Places() +
                                         ": name one with --server or TESSERA_SERVER"});
  }
  std::vector<std::string> urls;
  if (const ServerProblem problem = SplitServers(list, &urls); problem.exit_code != kExitOk) return Refuse(problem);
  if (urls.size() != 1) {
    return Refuse(
        {kExitUsage, "each server has its own numbers of sessions, and " + list + " are several: name one with --server"});
  }
  ServerUrls address;
  ServerProblem problem = ReachServer(urls[0], options.link, &address);
  if (problem.exit_code == kExitOk) problem = EndSessionAt(address, session, static_cast<uint64_t>(options.grace_ms));
  if (problem.exit_code != kExitOk) return Refuse(problem);
  const double seconds = static_cast<double>(options.grace_ms) / 1e3;
  fmt::print("session {} ends {}\n", session, options.grace_ms == 0 ? "now" : fmt::format("in {} s at the latest", seconds));
  return kExitOk;
}

}  // namespace tessera
