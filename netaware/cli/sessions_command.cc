#include "netaware/cli/sessions_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "netaware/cli/found_server.h"
#include "netaware/cli/server_list.h"
#include "netaware/cli/server_reach.h"
#include "netaware/job/job_options.h"
#include "protocol/base/printable.h"
#include "protocol/wire/server_query.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(end   ends a session, by its number in 'tessera top' and 'tessera status -o json': one's own, and any for root, the server's user
      and those of tesserad --admin. Its program is told on stderr, and its CUDA calls fail from then on

Exit codes: 0; 2 the command line was not understood; 71 to 74 as of 'tessera run'; 81 there is no such session for this user, or it has
ended

Examples:
  tessera sessions end 17
  tessera sessions end 17 --grace 30s --server tls://gpu7:4180)";

int Refuse(const ServerProblem& problem) {
  if (!problem.sentence.empty()) std::fprintf(stderr, "tessera: %s\n", problem.sentence.c_str());
  return problem.exit_code;
}

bool ParseSession(const std::string& text, uint64_t* session) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *session);
  return error == std::errc() && stop == end && *session != 0;
}

}  // namespace

CLI::App* AddSessionsCommand(CLI::App& app, SessionsOptions* options) {
  CLI::App* const command = app.add_subcommand("sessions", "end a session of a server");
  command->add_option("action", options->action, "what to do")->required()->type_name("{end}")->check(CLI::IsMember({"end"}));
  command->add_option("session", options->session, "its number, as 'tessera top' shows it")->required()->type_name("ID");
  command
      ->add_option_function<std::string>(
          "--grace",
          [options](const std::string& text) {
            if (!ParseWait(text, &options->grace_ms) || options->grace_ms > static_cast<int64_t>(ServerQuery::kGraceMsMax)) {
              throw CLI::ValidationError(
                  "--grace", "'" + Printable(text) + "' is no time with its unit (s, m, h) of 24h at most, such as 30s, or 0");
            }
          },
          "how long it may go on (default: 0)")
      ->type_name("TIME");
  command->footer(kFooter);
  return command;
}

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
  ServerAddress address;
  ServerProblem problem = ReachServer(urls[0], options.link, &address);
  if (problem.exit_code == kExitOk) problem = EndSessionAt(address, session, static_cast<uint64_t>(options.grace_ms));
  if (problem.exit_code != kExitOk) return Refuse(problem);
  const double seconds = static_cast<double>(options.grace_ms) / 1e3;
  fmt::print("session {} ends {}\n", session, options.grace_ms == 0 ? "now" : fmt::format("in {} s at the latest", seconds));
  return kExitOk;
}

}  // namespace tessera
