#include "protocol/base/child_logs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/start_program.h"

namespace tessera {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// What must be allowed before a pipe is read.
constexpr int64_t kTurnBytes = int64_t{ChildLogs::kPieceBytes} + ChildLogs::kLineBytes;

// A file always has; so has a pipe that nobody reads any more, which takes nothing and does not wait.
bool StderrHasRoom() {
  pollfd log = {LogFile(), POLLOUT, 0};
  return poll(&log, 1, 0) != 0;
}

bool Names(std::string_view line, const std::string& name) {
  return line.starts_with(name) && line.size() > name.size() && (line[name.size()] == '[' || line[name.size()] == ':');
}

}  // namespace

Result<pid_t> ChildLogs::Start(const std::string& path, const std::string& name, const std::string& log_name,
                               const std::vector<std::string>& arguments, const std::vector<int>& passed,
                               std::optional<std::vector<std::string>> environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return Status::FromErrno("cannot make a pipe for the log of a child process", errno);
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  Result<pid_t> pid = StartProgram(path, name, arguments, passed, std::move(environment), write_end.get());
  if (pid.ok()) children_.push_back({.pid = *pid, .name = log_name, .pipe = std::move(read_end), .allowed_ns = MonotonicNs()});
  return pid;
}

void ChildLogs::Watch(std::vector<pollfd>* watched) const {
  if (!room_) return watched->push_back({LogFile(), POLLOUT, 0});
  for (const Child& child : children_) {
    if (child.allowance >= kTurnBytes) watched->push_back({child.pipe.get(), POLLIN, 0});
  }
}

uint64_t ChildLogs::next_ns() const {
  uint64_t next_ns = std::numeric_limits<uint64_t>::max();
  for (const Child& child : children_) {
    if (child.allowance >= kTurnBytes) continue;
    next_ns = std::min(
        next_ns, child.allowed_ns + static_cast<uint64_t>((kTurnBytes - child.allowance + 1) * kSecondNs / kBytesPerSecond));
  }
  return next_ns;
}

int ChildLogs::PollTimeoutMs() const {
  const uint64_t at_ns = next_ns();
  const uint64_t now_ns = MonotonicNs();
  if (at_ns == std::numeric_limits<uint64_t>::max()) return -1;
  return at_ns <= now_ns ? 0 : static_cast<int>((at_ns - now_ns) / 1'000'000 + 1);
}

void ChildLogs::Relay(std::span<const pollfd> ready) {
  const bool had_room = room_;
  room_ = room_ || StderrHasRoom();
  const auto spoke = [&](const Child& child) {
    return std::any_of(ready.begin(), ready.end(),
                       [&](const pollfd& one) { return one.fd == child.pipe.get() && one.revents != 0; });
  };
  const bool any = std::any_of(ready.begin(), ready.end(), [](const pollfd& one) { return one.revents != 0; });
  for (Child& child : children_) {
    Allow(child);
    if (!had_room || (any && spoke(child))) RelayPiece(child);
  }
  RelayEnded();
}

void ChildLogs::Relay() {
  room_ = true;
  for (Child& child : children_) {
    Allow(child);
    while (RelayPiece(child)) {
    }
  }
  RelayEnded();
}

void ChildLogs::Forget(pid_t pid) {
  const auto found = std::find_if(children_.begin(), children_.end(), [pid](const Child& child) { return child.pid == pid; });
  if (found == children_.end()) return;
  found->pid = -1;
  found->ended = true;
  found->allowance = std::max(found->allowance, kBurstBytes / 2);  // enough for a pipe that is full
  RelayEnded();
}

void ChildLogs::Allow(Child& child) {
  if (child.allowance == kBurstBytes) return;
  const uint64_t now_ns = MonotonicNs();
  const int64_t past_ns = static_cast<int64_t>(std::min<uint64_t>(now_ns - child.allowed_ns, 60 * kSecondNs));
  const int64_t more = past_ns * kBytesPerSecond / kSecondNs;
  if (more == 0) return;
  child.allowance = std::min(child.allowance + more, kBurstBytes);
  child.allowed_ns = now_ns;
}

bool ChildLogs::RelayPiece(Child& child) {
  if (!WriteLines(child)) return false;
  if (child.allowance < kTurnBytes) return false;
  std::array<char, kPieceBytes> piece;
  const ssize_t count = read(child.pipe.get(), piece.data(), piece.size());
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && errno == EAGAIN) return false;
  if (count <= 0) {  // it has closed its ends
    child.ended = true;
    return false;
  }
  child.unwritten.append(piece.data(), static_cast<size_t>(count));
  const bool allowed = child.allowance >= kTurnBytes;
  const bool written = WriteLines(child);
  if (allowed && child.allowance < kTurnBytes) {
    LogWarning("{} writes too much: of its log {} bytes a second are read", child.name, kBytesPerSecond);
  }
  return written;
}

bool ChildLogs::WriteLines(Child& child) {
  for (;;) {
    const size_t end = child.unwritten.find('\n');
    if (end == std::string::npos && child.unwritten.size() < kLineBytesMax) return true;
    if (!room_ || !StderrHasRoom()) return room_ = false;
    const size_t bytes = std::min(end, kLineBytesMax);
    WriteLine(child, std::string_view(child.unwritten).substr(0, bytes));
    child.unwritten.erase(0, bytes + (bytes == end ? 1 : 0));
  }
}

void ChildLogs::WriteLine(Child& child, std::string_view line) {
  if (Names(line, child.name)) {
    LogLineOfChild(line);
  } else if (!line.empty()) {
    LogLineOfChild(fmt::format("{}: {}", child.name, line));
  }
  child.allowance -= static_cast<int64_t>(line.size()) + kLineBytes;
}

void ChildLogs::RelayEnded() {
  for (auto next = children_.begin(); next != children_.end();) {
    const auto child = next++;
    if (!child->ended) continue;
    while (RelayPiece(*child)) {
    }
    if (!room_) continue;
    if (!child->unwritten.empty()) WriteLine(*child, child->unwritten);
    if (child->pid >= 0) LogDebug("{} has closed its log", child->name);
    children_.erase(child);
  }
  auto ended = std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.ended; });
  children_.remove_if([&](const Child& child) { return child.ended && ended-- > static_cast<ptrdiff_t>(kEndedMax); });
}

}  // namespace tessera
