#include "protocol/base/child_logs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
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
  if (pid.ok()) {
    children_.push_back({*pid, log_name, std::move(read_end), {kBurstBytes, kBytesPerSecond, kBurstBytes, MonotonicNs()}});
  }
  return pid;
}

void ChildLogs::Watch(std::vector<pollfd>* watched) const {
  if (!room_) return watched->push_back({LogFile(), POLLOUT, 0});
  for (const Child& child : children_) {
    if (MayRead(child)) watched->push_back({child.pipe.get(), POLLIN, 0});
  }
}

uint64_t ChildLogs::next_ns() const {
  uint64_t next_ns = std::numeric_limits<uint64_t>::max();
  if (!children_.empty() && !of_all_.IsEnough()) next_ns = of_all_.EnoughNs();
  for (const Child& child : children_) {
    if (!child.allowance.IsEnough()) next_ns = std::min(next_ns, child.allowance.EnoughNs());
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
  // While not all can be read, those that were read are the last the next time.
  for (auto next = children_.begin(), last = std::prev(children_.end(), children_.empty() ? 0 : 1), end = children_.end();
       next != end;) {
    const auto child = next;
    next = child == last ? end : std::next(child);
    Allow(*child);
    if (had_room && !(any && spoke(*child))) continue;
    const bool read = MayRead(*child);
    RelayPiece(*child);
    if (read) children_.splice(children_.end(), children_, child);
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
  found->allowance.bytes = std::max(found->allowance.bytes, kBurstBytes / 2);  // enough for a pipe that is full
  RelayEnded();
}

void ChildLogs::Allowance::Grow(uint64_t now_ns) {
  if (bytes == burst_bytes) {
    at_ns = now_ns;
    return;
  }
  const int64_t past_ns = static_cast<int64_t>(std::min<uint64_t>(now_ns - at_ns, 60 * kSecondNs));
  const int64_t more = past_ns * bytes_per_second / kSecondNs;
  if (more == 0) return;
  bytes = std::min(bytes + more, burst_bytes);
  at_ns = now_ns;
}

bool ChildLogs::Allowance::IsEnough() const { return bytes >= kTurnBytes; }

uint64_t ChildLogs::Allowance::EnoughNs() const {
  return at_ns + static_cast<uint64_t>((kTurnBytes - bytes + 1) * kSecondNs / bytes_per_second);
}

void ChildLogs::Allow(Child& child) {
  const uint64_t now_ns = MonotonicNs();
  child.allowance.Grow(now_ns);
  of_all_.Grow(now_ns);
  if (of_all_.bytes == kBurstBytesOfAll) told_of_all_ = false;
}

bool ChildLogs::RelayPiece(Child& child) {
  if (!WriteLines(child)) return false;
  if (!MayRead(child)) return false;
  std::array<char, kPieceBytes> piece;
  const ssize_t count = read(child.pipe.get(), piece.data(), piece.size());
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && errno == EAGAIN) return false;
  if (count <= 0) {  // it has closed its ends
    child.ended = true;
    return false;
  }
  child.unwritten.append(piece.data(), static_cast<size_t>(count));
  const bool written = WriteLines(child);
  if (!child.allowance.IsEnough()) {
    LogWarning("{} writes too much: of its log {} bytes a second are read", child.name, kBytesPerSecond);
  }
  if (!of_all_.IsEnough() && !told_of_all_) {
    told_of_all_ = true;
    LogWarning("all processes of this server together write too much: of their logs {} bytes a second are read",
               kBytesPerSecondOfAll);
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
  const int64_t bytes = static_cast<int64_t>(line.size()) + kLineBytes;
  child.allowance.bytes -= bytes;
  of_all_.bytes -= bytes;
}

void ChildLogs::RelayEnded() {
  for (auto next = children_.begin(); next != children_.end();) {
    const auto child = next++;
    if (!child->ended) continue;
    while (RelayPiece(*child)) {
    }
    if (!room_ || !of_all_.IsEnough()) continue;
    if (!child->unwritten.empty()) WriteLine(*child, child->unwritten);
    if (child->pid >= 0) LogDebug("{} has closed its log", child->name);
    children_.erase(child);
  }
  auto ended = std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.ended; });
  const size_t lost =
      children_.remove_if([&](const Child& child) { return child.ended && ended-- > static_cast<ptrdiff_t>(kEndedMax); });
  if (lost > 0) LogWarning("the last words of {} processes that have ended are left out", lost);
}

}  // namespace tessera
