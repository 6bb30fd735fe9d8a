// tessera-admin: the commands of `tessera` that need gRPC. tessera becomes this program, which reads the same command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "netaware/admin/describe_command.h"
#include "netaware/admin/doctor_command.h"
#include "netaware/admin/event_command.h"
#include "netaware/admin/keys_command.h"
#include "netaware/admin/place_command.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/pool_command.h"
#include "netaware/admin/server_command.h"
#include "netaware/admin/status_command.h"
#include "netaware/admin/vgpu_command.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/job/job_config.h"
#include "netaware/pool/keys_command_line.h"
#include "netaware/pool/placer_options.h"
#include "netaware/pool/pool_command_line.h"
#include "netaware/pool/status_command_line.h"
#include "netaware/vgpu/vgpu_command_line.h"

namespace tessera {
namespace {

// Fills in missing options from the config.toml files; also the job options of `place`.
void CompleteOptions(const JobConfig& config, PoolOptions* options) {
  JobOptions job = options->job;
  job.placer = options->placer;
  config.Complete(&job);
  options->placer = job.placer;
  options->job = job;
  config.CompleteKeys(&options->certificate, &options->key, &options->authority);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  CLI::App app{"Carries out what of 'tessera' asks a server's control API or a placer, and is started by it.", "tessera"};
  app.set_version_flag("--version", std::string("tessera-admin ") + TESSERA_VERSION, "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  app.require_subcommand(1);
  VgpuOptions options;
  AddVgpuCommand(app, &options);
  PoolOptions pool;
  AddPoolCommands(app, &pool);
  AddIdentity(*AddStatusCommand(app, &pool), &pool);
  AddIdentity(*AddTopCommand(app, &pool), &pool);
  // A hidden command: `tessera doctor` starts it, and prints its findings together with its own.
  CLI::App* const doctor = app.add_subcommand("doctor-pool", "say how it is with a placer, as JSON");
  AddPlacer(*doctor->group(""), &pool);
  doctor->callback([&pool] { pool.command = "doctor-pool"; });
  AddKeysRenew(app, &pool);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& text_wanted) {
    app.exit(text_wanted);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::string command = app.get_subcommands().empty() ? "" : " " + app.get_subcommands().front()->get_name();
    std::fprintf(stderr, "tessera: %s: see 'tessera%s --help'\n", error.what(), command.c_str());
    return kExitUsage;
  }
  if (!pool.command.empty()) {
    const Result<JobConfig> config = JobConfig::Read();
    if (!config.ok()) return Say(kExitUsage, config.status().message());
    CompleteOptions(config.value(), &pool);
  }
  if (pool.command == "events" || pool.command == "audit") return EventCommand(pool);
  if (pool.command == "keys") return KeysRenewCommand(pool);
  if (!pool.server.empty()) return ServerCommand(pool);
  if (pool.command == "doctor-pool") return DoctorCommand(pool);
  if (pool.command == "status" || pool.command == "top") return StatusCommand(pool);
  if (pool.command == "place") return PlaceCommand(pool);
  if (pool.command == "describe") return DescribeCommand(pool);
  if (!pool.command.empty()) return PoolCommand(pool);
  if (const std::string wrong = CheckVgpuOptions(options); !wrong.empty()) {
    std::fprintf(stderr, "tessera: %s: see 'tessera vgpu --help'\n", wrong.c_str());
    return kExitUsage;
  }
  return VgpuCommand(options);
}
