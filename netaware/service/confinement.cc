#include "netaware/service/confinement.h"

#include <linux/capability.h>
#include <unistd.h>

#include "protocol/base/log.h"
#include "protocol/link/tls/key_files.h"
#include "server/sandbox/capabilities.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {

Result<std::unique_ptr<HelperLine>> StartPlacerHelper(const PlacerOptions& options, const std::vector<UnixListener>& users) {
  HelperOptions helper;
  if (!options.tls_urls.empty()) helper.files = FilesOf(TlsRole::kServer, options.link);
  helper.files.push_back(options.policy_path);
  helper.acts[kRemoveSockets] = [&users](const std::string&) {  // the child's own copy
    for (const UnixListener& listener : users) listener.RemoveFile();
    return Status::Ok();
  };
  return HelperLine::Start(std::move(helper));
}

Status EnterPlacerSandbox(const PlacerOptions& options) {
  // A root of its own would be in a user namespace for whoever may not mount, and there callers have no numbers.
  const bool may_mount = geteuid() == 0 && HasCapability(CAP_SYS_ADMIN);
  SandboxOptions sandbox = ServiceSandbox(Service::kPlacer, options.sandbox, may_mount);
  sandbox.who = "placers";
  sandbox.root_option = "";
  sandbox.parent_death_signal = 0;  // it is nobody's child in particular
  SandboxReport report;
  RETURN_IF_ERROR(EnterSandbox(sandbox, &report));
  if (!report.protection.empty()) LogDebug("the sandbox of this process: {}", report.protection);
  for (const std::string& gap : report.gaps) LogWarning("the sandbox of this process is not complete: {}", gap);
  return Status::Ok();
}

}  // namespace tessera
