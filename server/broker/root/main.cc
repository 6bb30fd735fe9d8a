// tessera-broker: whose vGPU may use which GPU until when. tesserad starts it; how it ends stands in README.md.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "programs/service_process.h"
#include "protocol/base/log.h"
#include "server/broker/root/options.h"
#include "server/broker/run_broker.h"
#ifdef TESSERA_CONTROL_API
#include "server/broker/control/control_server.h"
#include "server/broker/metrics/metrics_server.h"
#include "server/broker/usage/usage_front.h"
#include "server/usage/usage_keeper.h"
#endif
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-broker";
constexpr const char* kUsageLogName = "tessera-broker (usage)";

#ifdef TESSERA_CONTROL_API
// The process that keeps usage records: its sandbox has a directory.
[[noreturn]] void KeepUsage(const ProgramOptions& options) {
  SandboxOptions sandbox =
      ServiceSandbox(Service::kUsageKeeper, options.sandbox, !options.machine_root, {options.usage_directory});
  const bool refuses = options.sandbox == SandboxMode::kAuto || options.sandbox == SandboxMode::kRequire;
  const bool other_user = geteuid() == 0 && refuses && InspectSandbox(sandbox).other_user;
  UsageKeeperOptions keeper;
  keeper.directory = options.usage_directory;
  keeper.days = options.usage_days;
  keeper.user = other_user ? static_cast<uid_t>(Service::kUsageKeeper) : 0;
  keeper.opened.reset(options.opened_fd);
  keeper.confine = [&sandbox] { return EnterSandbox(sandbox); };
  const Status status = RunUsageKeeper(UniqueFd(options.usage_fd), std::move(keeper));
  EndService(status.ok() ? kServiceOk : Fail(kUsageLogName, status, kServiceInternal));
}
#endif

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  ProgramOptions options;
  if (const int code = ParseProgramOptions(argc, argv, &options); code >= 0) return code;
  if (options.parent_pid != 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent_pid) return kServiceOk;  // it ended before the line above
  }
  signal(SIGPIPE, SIG_IGN);  // its log goes to tesserad, which may have ended
  const char* const name = options.usage_fd >= 0 ? kUsageLogName : kName;
  SetLogName(name, options.parent_pid != 0 ? LogTimes::kNever : LogTimes::kUnlessTerminal);
  SetLogLevel(options.log_level);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifdef TESSERA_CONTROL_API
  if (options.usage_fd >= 0) KeepUsage(options);
#endif
  RaiseDescriptorLimit();  // a session takes two
  UniqueFd control(options.control_fd), names(options.names_fd), control_tls(options.control_tls_fd);
  Result<std::unique_ptr<CallQueue>> calls = CallQueue::Make();
  if (!calls.ok()) EndService(Fail(kName, calls.status(), kServiceInternal));
  CallQueue* const queue = control.valid() || control_tls.valid() ? calls->get() : nullptr;
  UniqueFd metrics(options.metrics_fd);
  MetricsBoard board;
  UniqueFd usage_line(options.usage_line_fd);
  MetricsBoard* const told = metrics.valid() || usage_line.valid() ? &board : nullptr;
  const Status status = RunBroker(UniqueFd(options.line_fd), options.broker, queue, told, [&] {
    SandboxOptions sandbox = ServiceSandbox(Service::kBroker, options.sandbox, !options.machine_root);
    if (!options.broker.record.empty()) sandbox.parent_death_signal = SIGTERM;  // it writes down the rest
    RETURN_IF_ERROR(EnterSandbox(sandbox));
#ifdef TESSERA_CONTROL_API
    if (metrics.valid()) RETURN_IF_ERROR(MetricsServer::Start(std::move(metrics), board, options.restarts));
    UsageFront* usage = nullptr;
    if (usage_line.valid()) {
      Result<UsageFront*> started = UsageFront::Start(std::move(usage_line), board);
      if (!started.ok()) return started.status();
      usage = *started;
    }
    if (queue != nullptr) {
      return ControlServer::Start({std::move(control), std::move(names), std::move(control_tls)}, *queue,
                                  options.broker.administrators, usage);
    }
#endif
    return Status::Ok();
  });
  if (status.ok()) EndService(kServiceOk);
  EndService(Fail(kName, status, status.code() == StatusCode::kInvalidArgument ? kServiceUsage : kServiceInternal));
}
