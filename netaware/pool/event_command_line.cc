#include "netaware/pool/event_command_line.h"

#include <time.h>

#include <string>

#include "netaware/pool/placer_options.h"
#include "netaware/vgpu/usage_time.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kNameBytesMax = 256;

constexpr const char* kEventsFooter =
    R"(ACTION is what happened, OF what it is of:
  ask, grant, release, revoke   a grant: asked for, given, ended by its job, ended by somebody else
  join, leave                   a server of the pool
  cordon, uncordon, drain,
  remove                        the same, by an administrator
  policy, start                 the placer: its file of roles was taken up, it has started
OUTCOME is done, or refused, late (not free in the time that the job had), failed.
You see what is of your own grants and of servers; the placer's administrators and viewers see all. With --watch it goes on until
Ctrl-C, also when the placer is started anew: nothing is printed twice, and nothing left out.

Exit codes: as of 'tessera get'

Examples:
  tessera events
  tessera events --of gpu7 --since 7d
  tessera events --watch -o json)";

constexpr const char* kAuditFooter =
    R"(As 'tessera events', with who did it or was refused, for the placer's administrators and viewers. The placer keeps it for 90 days
(tessera-placer --audit-days), and a million records at most.

Exit codes: as of 'tessera get'; 73 you are neither administrator nor viewer

Examples:
  tessera audit --since 2026-11-26 --until 2026-11-27
  tessera audit --of name:alice --since 30d -o json)";

std::string CheckTime(const std::string& text) {
  int64_t seconds = 0;
  if (ParseUsageTime(text, time(nullptr), &seconds)) return "";
  return "'" + Printable(text) + "' is no time: write " + kUsageTimeForms;
}

std::string CheckName(const std::string& name) {
  if (name.size() <= kNameBytesMax && Printable(name, kNameBytesMax) == name) return "";
  return "'" + Printable(name) + "' is no server, grant or holder: these are 256 characters at most that can be printed";
}

void Add(CLI::App& app, PoolOptions* options, const char* name, const char* what, const char* footer) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("--since", options->since, "from this time on (default: 24h)")->type_name("TIME")->check(CheckTime);
  command->add_option("--until", options->until, "what was before this time (default: now)")->type_name("TIME")->check(CheckTime);
  command->add_option("--of", options->of, "a server, a grant or a holder: what concerns it alone")
      ->type_name("NAME")
      ->check(CheckName);
  command->add_flag("-w,--watch", options->watch, "go on with what happens, until Ctrl-C; json: an object a line")
      ->excludes("--until");
  AddTextOrData(*command, options);
  AddPlacer(*command, options);
  command->footer(footer);
  command->callback([options, name] { options->command = name; });
}

}  // namespace

void AddEventCommands(CLI::App& app, PoolOptions* options) {
  Add(app, options, "events", "show what happened in a pool", kEventsFooter);
  Add(app, options, "audit", "show who did what in a pool", kAuditFooter);
}

}  // namespace tessera
