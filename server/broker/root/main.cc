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
#endif
#include "server/sandbox/service_sandbox.h"

int main(int argc, char** argv) {
  using namespace tessera;
  constexpr const char* kName = "tessera-broker";
  ProgramOptions options;
  if (const int code = ParseProgramOptions(argc, argv, &options); code >= 0) return code;
  if (options.parent_pid != 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent_pid) return kServiceOk;  // it ended before the line above
  }
  signal(SIGPIPE, SIG_IGN);  // its log goes to tesserad, which may have ended
  SetLogName(kName, options.parent_pid != 0 ? LogTimes::kNever : LogTimes::kUnlessTerminal);
  SetLogLevel(options.log_level);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  RaiseDescriptorLimit();  // a session takes two
  UniqueFd control(options.control_fd);
  Result<std::unique_ptr<CallQueue>> calls = CallQueue::Make();
  if (!calls.ok()) EndService(Fail(kName, calls.status(), kServiceInternal));
  CallQueue* const queue = control.valid() ? calls->get() : nullptr;
  UniqueFd metrics(options.metrics_fd);
  MetricsBoard board;
  MetricsBoard* const told = metrics.valid() ? &board : nullptr;
  const Status status = RunBroker(UniqueFd(options.line_fd), options.broker, queue, told, [&] {
    SandboxOptions sandbox = ServiceSandbox(Service::kBroker, options.sandbox, !options.machine_root);
    if (!options.broker.record.empty()) sandbox.parent_death_signal = SIGTERM;  // it writes down the rest
    RETURN_IF_ERROR(EnterSandbox(sandbox));
#ifdef TESSERA_CONTROL_API
    if (told != nullptr) RETURN_IF_ERROR(MetricsServer::Start(std::move(metrics), board, options.restarts));
    if (queue != nullptr) return ControlServer::Start(std::move(control), *queue, options.broker.administrators);
#endif
    return Status::Ok();
  });
  if (status.ok()) EndService(kServiceOk);
  EndService(Fail(kName, status, status.code() == StatusCode::kInvalidArgument ? kServiceUsage : kServiceInternal));
}
