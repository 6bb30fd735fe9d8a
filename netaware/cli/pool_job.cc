#include "netaware/cli/pool_job.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "netaware/cli/companion.h"

namespace tessera {

ServerProblem PoolJob::Start(const InstallLayout& layout, const std::string& url, const JobOptions& options,
                             const LinkOptions& link, PoolJob* job) {
  JobOptions asked = options;
  asked.placer = url;
  Companion::Program lease = {layout.lease, "the lease", JobArguments(asked), {}, "start it by hand to see more"};
  lease.ready_timeout_ms = -1;  // as long as the job waits for its GPUs
  if (access(lease.path.c_str(), F_OK) != 0) {
    return {kExitMissingLibrary, lease.path + " is missing: this installation of Tessera is incomplete, install it again"};
  }
  const KeyFiles& keys = link.keys;
  for (const auto& [option, file] :
       {std::pair("--certificate", keys.certificate), {"--key", keys.key}, {"--authority", keys.authority}}) {
    if (!file.empty()) lease.arguments.insert(lease.arguments.end(), {option, file});
  }
  Companion companion;
  int exit_code = 0;
  ServerProblem problem = Companion::Start(lease, &companion, &exit_code);
  // It ends as `tessera run` is to.
  if (problem.exit_code != kExitOk && problem.sentence.empty()) problem.exit_code = exit_code;
  if (problem.exit_code != kExitOk) return problem;
  const nlohmann::json said = nlohmann::json::parse(companion.line, nullptr, false);
  if (!said.is_object()) return {kExitServerFailed, "the lease said something else than a grant: install Tessera again"};
  job->servers = said.value("servers", "");
  job->tickets = said.value("tickets", "");
  job->text = said.value("text", "");
  return {};
}

}  // namespace tessera
