#include "netaware/cli/view_command.h"

#include <cstdio>
#include <cstdlib>

#include "netaware/cli/admin_program.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/cli/status_command.h"
#include "netaware/cli/top_command.h"
#include "netaware/job/job_config.h"
#include "netaware/job/placer_path.h"

namespace tessera {
namespace {

int Refuse(const std::string& sentence) {
  std::fprintf(stderr, "tessera: %s\n", sentence.c_str());
  return kExitUsage;
}

// True if the settings name a placer, or if this user's own placer listens.
Result<bool> HasPlacer() {
  const Result<JobConfig> config = JobConfig::Read();
  if (!config.ok()) return config.status();
  return config.value().Find("placer") != nullptr || !FindPlacer("").empty();
}

// Becomes tessera-admin, which shows the pool.
int ShowPool(const ViewOptions& options, const PoolOptions& pool, char** argv) {
  if (options.link.insecure || options.link.connections != 0)
    return Refuse("--insecure, as --connections, is for servers, and this shows a pool: leave it out, or name a server");
  if (!pool.sort.empty())
    return Refuse("--sort is for the sessions of a server, and this shows a pool: leave it out, or name a server");
  return BecomeAdminProgram(argv);
}

}  // namespace

int ViewCommand(const ViewOptions& options, const PoolOptions& pool, char** argv) {
  if (!pool.placer.empty() && !options.server.empty())
    return Refuse("--placer shows a pool, and --server a server: leave one of them out");
  const char* const configured = getenv("TESSERA_SERVER");
  const bool is_server = !options.server.empty() || (configured != nullptr && *configured != '\0');
  if (!pool.placer.empty()) return ShowPool(options, pool, argv);
  if (!is_server) {
    const Result<bool> has_placer = HasPlacer();
    if (!has_placer.ok()) return Refuse(has_placer.status().message());
    if (has_placer.value()) return ShowPool(options, pool, argv);
  }
  if (pool.watch || (pool.output != "text" && pool.output != "json"))
    return Refuse("--watch, and -o wide and yaml, are of a pool: a server has 'tessera top', and text and json");
  if (pool.command == "status") return StatusCommand({options.server, options.link, pool.output});
  return TopCommand(
      {options.server, options.link, pool.output, pool.interval_s, pool.count, pool.sort.empty() ? "session" : pool.sort});
}

}  // namespace tessera
