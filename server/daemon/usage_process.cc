#include "server/daemon/usage_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/start_program.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/children/child_process.h"

namespace tessera {

Status UsageProcess::Prepare() {
  if (options_.usage_directory.empty()) return Status::Ok();
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  brokers_end_ = std::move(ends->first);
  keepers_end_ = std::move(ends->second);
  if (!options_.usage_is_asked) return Status::Ok();
  int both[2];
  if (pipe2(both, O_CLOEXEC) != 0) return Status::FromErrno("cannot make a pipe", errno);
  const UniqueFd opened(both[0]);
  UniqueFd keepers(both[1]);
  RETURN_IF_ERROR(Launch(keepers.get()));
  keepers.reset();
  return AwaitOpened(opened.get());
}

Status UsageProcess::AwaitOpened(int opened) {
  const uint64_t until_ns = MonotonicNs() + kOpenedNs;
  std::string sentence;
  for (;;) {
    pollfd ready{opened, POLLIN, 0};
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= until_ns) return Status(StatusCode::kUnavailable, "no usage records: their keeper says nothing");
    poll(&ready, 1, static_cast<int>((until_ns - now_ns) / 1'000'000) + 1);
    if (ready.revents == 0) continue;
    char bytes[512];
    const ssize_t got = read(opened, bytes, sizeof(bytes));
    if (got <= 0) break;
    sentence.append(bytes, static_cast<size_t>(got));
  }
  logs_.Relay();
  if (waitpid(pid_, nullptr, WNOHANG) == pid_)
    return Status(StatusCode::kUnavailable, "no usage records: their keeper has ended");
  return sentence.empty() ? Status::Ok() : Status(StatusCode::kUnavailable, "no usage records: " + sentence);
}

Status UsageProcess::Launch(int opened) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "tessera-broker").string();
  std::vector<std::string> arguments = {"--usage-fd",
                                        std::to_string(kPassedFd),
                                        "--parent-pid",
                                        std::to_string(getpid()),
                                        "--log",
                                        options_.log_word,
                                        "--sandbox",
                                        options_.sandbox_word,
                                        "--usage-directory",
                                        options_.usage_directory,
                                        "--usage-days",
                                        std::to_string(options_.usage_days)};
  if (!options_.private_root) arguments.emplace_back("--machine-root");
  std::vector<int> passed = {keepers_end_.get()};
  if (opened >= 0) {
    passed.push_back(opened);
    arguments.insert(arguments.end(), {"--opened-fd", std::to_string(kPassedFd + 1)});
  }
  Result<pid_t> pid = logs_.Start(program, program, "tessera-broker (usage)", arguments, passed);
  if (!pid.ok()) return pid.status();
  pid_ = *pid;
  return Status::Ok();
}

int UsageProcess::fd() const { return pid_ > 0 || MonotonicNs() < start_at_ns_ ? -1 : keepers_end_.get(); }

uint64_t UsageProcess::next_ns() const {
  const bool pauses = keepers_end_.valid() && pid_ <= 0 && MonotonicNs() < start_at_ns_;
  return pauses ? start_at_ns_ : kNoDeadline;
}

void UsageProcess::Tend() {
  pollfd ready{fd(), POLLIN, 0};
  if (ready.fd < 0 || poll(&ready, 1, 0) != 1) return;
  start_at_ns_ = MonotonicNs() + kPauseNs;
  if (const Status started = Launch(); !started.ok())
    LogError("the keeper of usage records does not start: {}", started.message());
}

bool UsageProcess::Forget(pid_t pid, int wait_status) {
  if (pid != pid_) return false;
  pid_ = -1;
  start_at_ns_ = MonotonicNs() + kPauseNs;
  LogError("the keeper of usage records {}; another one is started when there are some", DescribeWaitStatus(wait_status));
  return true;
}

void UsageProcess::Stop() {
  brokers_end_.reset();
  keepers_end_.reset();
  if (pid_ <= 0) return;
  EndChild(pid_, kEndNs);
  pid_ = -1;
}

}  // namespace tessera
