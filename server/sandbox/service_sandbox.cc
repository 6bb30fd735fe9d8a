#include "server/sandbox/service_sandbox.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocol/base/log.h"

namespace tessera {

SandboxOptions ServiceSandbox(Service service, SandboxMode mode, bool private_root, const std::vector<std::string>& directories) {
  using enum FileRule::Access;
  using enum Service;
  const bool speaks = service == kGateway || service == kAgent || service == kNode || service == kPlacer;
  SandboxOptions options;
  options.mode = mode;
  options.private_root = private_root;
  options.calls = speaks ? CallFilter::kCarrier : service == Service::kBroker ? CallFilter::kBroker : CallFilter::kService;
  options.who = service == Service::kAgent ? "agents" : "services";
  options.parent_death_signal = SIGKILL;
  const auto id = static_cast<uid_t>(service);
  if (geteuid() == 0)
    options.user = WorkerUser{.name = std::to_string(id), .uid = id, .gid = static_cast<gid_t>(id), .own = false};
  options.devices = {};
  options.files = {{"/proc/self", kRead}, {"/dev/null", kReadWrite}};
  // What C libraries ask while it works: how many threads make sense, and the time zone.
  if (service == kAgent || service == kNode || service == kPlacer)
    options.files->insert(options.files->end(), {{"/sys/devices/system/cpu/online", kRead}, {"/etc/localtime", kRead}});
  for (const std::string& directory : directories) options.files->push_back({directory, kReadWrite});
  return options;
}

SandboxOptions NetworkSandbox(Service service, SandboxMode mode, const std::vector<std::string>& library_directories) {
  SandboxOptions options = ServiceSandbox(service, mode, false);
  options.calls = CallFilter::kNetwork;
  options.files = NetworkFileRules(library_directories);
  options.devices = {"/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"};
  return options;
}

Status EnterNetworkSandbox(Service service, SandboxMode mode, const std::vector<std::string>& library_directories,
                           SandboxReport* report) {
  const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  if (mode != SandboxMode::kOff && geteuid() == 0 && setrlimit(RLIMIT_MEMLOCK, &none) != 0)
    LogDebug("the bound of locked memory stays: errno {}", errno);
  SandboxReport own;
  RETURN_IF_ERROR(EnterSandbox(NetworkSandbox(service, mode, library_directories), report != nullptr ? report : &own));
  for (const std::string& gap : own.gaps) LogWarning("the sandbox of this process is not complete: {}", gap);
  return Status::Ok();
}

void EndService(int code) { _exit(code); }

}  // namespace tessera
