#include "netaware/cli/pool_job.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "netaware/cli/companion.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// Whether somebody takes connections at this path.
bool Listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return socket.valid() && connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

std::string FindPlacer(const JobOptions& options) {
  if (!options.placer.empty()) return options.placer;
  if (const char* configured = getenv("TESSERA_PLACER"); configured != nullptr && *configured != '\0') return configured;
  const std::string path = UserPlacerPath();
  return !path.empty() && Listens(path) ? std::string(kUnixScheme) + path : "";
}

ServerProblem PoolJob::Start(const InstallLayout& layout, const std::string& url, const JobOptions& options,
                             const LinkOptions& link, PoolJob* job) {
  JobOptions asked = options;
  asked.placer = url;
  Companion::Program lease = {layout.lease, "the lease", JobArguments(asked), "start it by hand to see more"};
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
