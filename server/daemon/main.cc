// tesserad: wires the parts. What it prints and how it ends stands in README.md.
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "generated/spec_hash.h"
#include "programs/default_socket.h"
#include "programs/service_notice.h"
#include "programs/service_process.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/device_probe.h"
#include "server/daemon/driver_trial.h"
#include "server/daemon/gateway_process.h"
#include "server/daemon/how_to_use.h"
#include "server/daemon/monitor.h"
#include "server/daemon/options.h"
#include "server/daemon/supervisor.h"
#include "server/daemon/tell_sandbox.h"
#include "server/daemon/worker_process.h"
#include "server/daemon/worker_sandbox.h"
#include "server/images/image_keeper.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

constexpr const char* kName = "tesserad";

int ExitCodeOfBroker(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? kServiceUsage : kServiceCannotListen;
}

// What the line says that tells that the server can be used.
struct Told {
  std::string where;  // "unix:A and tls://B"
  std::string use;    // of HowToUse(); empty: of one job, or one whose clients a placer sends
  std::string who;    // who may connect, of gateways where nobody need prove who he is
};

Told Tell(const Options& options, const std::vector<GatewayProcess>& gateways, bool is_default) {
  Told told{.where = "unix:" + options.listen_path, .use = "", .who = ""};
  for (const std::string& path : options.more_paths) told.where += " and unix:" + path;
  std::vector<std::string> urls;
  for (const GatewayProcess& gateway : gateways) {
    urls.push_back(gateway.url);
    told.where += " and " + gateway.url;
    if (!gateway.who.empty()) told.who += "; " + gateway.who;
  }
  if (options.owner_fd >= 0 || options.needs_ticket) return told;
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, sizeof(name) - 1);
  told.use = HowToUse(options.listen_path, is_default, urls, name);
  return told;
}

// All sockets of this host, in their order.
Result<std::vector<UnixListener>> Bind(const Options& options, bool is_default) {
  if (is_default) RETURN_IF_ERROR(MakeSocketDirectory(options.listen_path, options.socket.group));
  std::vector<std::string> paths = {options.listen_path};
  paths.insert(paths.end(), options.more_paths.begin(), options.more_paths.end());
  std::vector<UnixListener> listeners;
  for (const std::string& path : paths) {
    Result<UnixListener> listener = UnixListener::Bind(path, options.socket);
    if (!listener.ok()) return listener.status();
    listeners.push_back(std::move(listener).value());
  }
  return listeners;
}

// A server for one program has no workers that wait beside it, as a rule, and is to be there soon.
bool MeasuresContexts(const Options& options) { return options.vgpus || options.owner_fd < 0; }

int RunDaemon(Options options) {
  ServiceNotice notice = ServiceNotice::Take();
  signal(SIGPIPE, SIG_IGN);  // whoever waits for the line below may be gone by then
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is as a full disk
  RaiseDescriptorLimit();    // before they are divided among what is kept for clients
  if (!CheckWorkerSandbox(&options)) return kExitNoSandbox;
  Result<DeviceList> devices = ProbeDevices(options.driver, options.log_word, MeasuresContexts(options));
  if (!devices.ok()) {
    fprintf(
        stderr,
        "tesserad: no device to serve: %s. Look at the driver with nvidia-smi, or serve the emulated GPU (--driver emulator).\n",
        devices.status().message().c_str());
    return kExitNoDevice;
  }
  if (const int code = ChooseCallFilter(*devices, &options); code != kServiceOk) return code;
  const bool is_default = options.listen_path == UserSocketPath(DefaultSocket::kServer);
  Result<std::vector<UnixListener>> listeners = Bind(options, is_default);
  if (!listeners.ok()) return Fail(kName, listeners.status(), kServiceCannotListen);
  ChildLogs logs;
  std::vector<GatewayProcess> gateways;
  for (const std::string& url : options.gateway_urls) {
    Result<GatewayProcess> started = GatewayProcess::Start(url, options, logs);
    if (!started.ok()) {
      // What ended has said on stderr what is wrong.
      const bool told = started.status().code() == StatusCode::kUnavailable;
      return told ? kServiceCannotListen : Fail(kName, started.status(), kServiceCannotListen);
    }
    gateways.push_back(*started);
  }
  options.driver = devices->driver;  // `auto` is decided once, for all workers alike
  options.priorities = devices->priorities;
  ServerReport report;
  report.spec_hash = kSpecHash;
  report.server = fmt::format("tesserad {}", TESSERA_VERSION);
  report.driver = devices->driver;
  report.snapshot = devices->snapshot;
  report.context_bytes = devices->context_bytes;
  report.sessions_max = options.sessions_max;
  report.needs_vgpu = options.no_default_vgpu;
  Supervisor supervisor(options, std::move(listeners).value(), std::move(report), logs, notice);
  if (const Status status = supervisor.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  const Told told = Tell(options, gateways, is_default);
  supervisor.Watch(std::move(gateways));
  if (const Status status = supervisor.StartBroker(); !status.ok()) return Fail(kName, status, ExitCodeOfBroker(status));
  if (const Status status = supervisor.StartNode(); !status.ok()) return Fail(kName, status, kServiceCannotListen);
  const std::string control = supervisor.control_url().empty() ? "" : "; control API at " + supervisor.control_url();
  Announce(fmt::format("{}: listening on {}, devices: {}, driver {}{}{}{}", kName, told.where, DescribeDevices(*devices),
                       DescribeVersion(devices->version), told.use, told.who, control));
  LeaveForeground(options);
  notice.Ready(fmt::format("{}, {}", told.where, DescribeDevices(*devices)));
  const int code = supervisor.Run();
  RemoveOwnDirectory(options, options.listen_path);
  return code;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  SetLogLevel(options.log_level);
  switch (options.role) {
    case Options::Role::kDaemon:
      SetLogName(kName, LogTimes::kUnlessTerminal);
      return options.check_sandbox ? TellWorkerSandbox(options) : RunDaemon(options);
    case Options::Role::kProbe:
      SetLogName(kProbeLogName);
      BecomeChild(options.parent_pid);
      return RunProbe(options.driver, options.measure_contexts, options.probe_fd);
    case Options::Role::kTrial:
      SetLogName(kTrialLogName);
      BecomeChild(options.parent_pid);
      return RunTrial(options);
    case Options::Role::kMonitor:
      SetLogName(kMonitorLogName);
      BecomeChild(options.parent_pid);
      return RunMonitor(options.monitor_fd);
    case Options::Role::kImageKeeper:
      SetLogName(kImagesLogName);
      BecomeChild(options.parent_pid);
      EndService(RunImageKeeper(options.keeper_fd, options.image_directory, uint64_t{options.image_gib} << 30,
                                SandboxOfImageKeeper(options)));
    case Options::Role::kWorker:
      SetLogName(WorkerLogName(options.session));
      BecomeChild(options.parent_pid);
      OfferToRunOutOfMemoryFirst();
      return RunWorkerProcess(options);
  }
  return kServiceInternal;
}
