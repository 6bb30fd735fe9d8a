#include "server/daemon/children/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

Result<pid_t> StartSelf(ChildLogs& logs, const std::string& log_name, const std::vector<std::string>& arguments,
                        const std::vector<int>& passed, std::optional<std::vector<std::string>> environment) {
  return logs.Start("/proc/self/exe", "tesserad", log_name, arguments, passed, std::move(environment));
}

std::string WorkerLogName(uint64_t session) { return "tesserad session " + std::to_string(session); }

Status NotReadyInTime(const std::string& who, uint32_t seconds) {
  return Status(StatusCode::kTimedOut,
                who + " is not ready after " + std::to_string(seconds) +
                    " s, and has said nothing: look at what else this machine does, and start the server again");
}

void OfferToRunOutOfMemoryFirst() {
  constexpr std::string_view kScore = "500\n";  // of 1000 (proc(5), oom_score_adj)
  const UniqueFd file(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!file.valid() || write(file.get(), kScore.data(), kScore.size()) < 0) LogDebug("no oom_score_adj: errno {}", errno);
}

void BecomeChild(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it ended before the line above
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void EndChild(pid_t pid, uint64_t grace_ns) {
  kill(pid, SIGTERM);
  const uint64_t deadline_ns = MonotonicNs() + grace_ns;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (MonotonicNs() > deadline_ns) kill(pid, SIGKILL);
    usleep(1000);
  }
}

}  // namespace tessera
