#include "server/daemon/tell_sandbox.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "server/daemon/children/exit_codes.h"
#include "server/daemon/device_probe.h"
#include "server/daemon/driver_trial.h"
#include "server/daemon/worker_sandbox.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {

int TellWorkerSandbox(const Options& options) {
  if (options.sandbox == SandboxMode::kOff || options.sandbox == SandboxMode::kLog) {
    printf("none: --sandbox %s\n", options.sandbox_word.c_str());
    return kServiceOk;
  }
  SandboxReport report = InspectWorkerSandbox(options);
  const SandboxReport services = InspectServiceSandbox(options);
  if (report.gaps.empty()) report.gaps = services.gaps;  // what workers lack too is told of them
  const bool uses_ucx =
      std::ranges::any_of(options.gateway_urls, [](const std::string& url) { return url.starts_with("ucx://"); });
  if (uses_ucx && report.gaps.empty()) report.gaps = InspectSandbox(NetworkSandbox(Service::kGateway, options.sandbox, {})).gaps;
  // Where there is a driver it is tried there.
  if (Result<DeviceList> devices = ProbeDevices(options.driver, options.log_word); devices.ok()) {
    const TrialResult tried = TryDriverInSandbox(*devices, options);
    if (!tried.problem.empty()) report.gaps.push_back(tried.problem);
  }
  printf("%s; services: %s\n", report.protection.c_str(), services.protection.c_str());
  for (const std::string& gap : report.gaps) printf("missing: %s\n", gap.c_str());
  return report.gaps.empty() ? static_cast<int>(kServiceOk) : static_cast<int>(kExitNoSandbox);
}

}  // namespace tessera
