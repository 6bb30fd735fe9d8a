#include <CLI/CLI.hpp>

#include "netaware/cli/sessions_command.h"
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

}  // namespace tessera
