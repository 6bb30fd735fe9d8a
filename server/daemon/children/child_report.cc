#include "server/daemon/children/child_report.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/daemon/children/child_process.h"

namespace tessera {
namespace {

constexpr size_t kReportBytesMax = 2 * kSnapshotBytesMax + 64 * 1024;  // a snapshot in hexadecimal, and a line per device

// Reads until the child closes its end. False after kReportTimeoutMs.
bool ReadReport(int fd, std::string* report) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{kReportTimeoutMs} * 1'000'000;
  std::array<char, 4096> piece;
  while (report->size() < kReportBytesMax) {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return false;
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000 + 1)) <= 0) continue;
    const ssize_t count = read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    report->append(piece.data(), static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

Result<std::string> ReportOfChild(const std::string& log_name, const std::string& fd_option, std::vector<std::string> arguments,
                                  std::optional<std::vector<std::string>> environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("cannot create a pipe", errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  arguments.insert(arguments.end(), {fd_option, std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid())});
  ChildLogs logs;
  Result<pid_t> pid = StartSelf(logs, log_name, arguments, {write_end.get()}, std::move(environment));
  if (!pid.ok()) return pid.status();
  write_end.reset();
  std::string report;
  const bool in_time = ReadReport(read_end.get(), &report);
  if (!in_time) kill(*pid, SIGKILL);
  int wait_status = 0;
  while (waitpid(*pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  logs.Forget(*pid);
  if (!in_time) {
    return Status(StatusCode::kUnavailable, fmt::format("it did not come up within {} s", kReportTimeoutMs / 1000));
  }
  if (WIFSIGNALED(wait_status)) return Status(StatusCode::kUnavailable, "the attempt " + DescribeWaitStatus(wait_status));
  return report;
}

bool WriteReport(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace tessera
