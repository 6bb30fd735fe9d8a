// The logs of this process's children. Each child writes to a pipe of its own. This process reads the pipe and writes the lines
// to its own log. So a child holds no terminal and no file of the user who started the server.
//
//   ChildLogs logs;
//   Result<pid_t> pid = logs.Start(path, "tessera-gateway", "tessera-gateway", arguments, {});
//   logs.Watch(&ready);  poll(...);  logs.Relay(std::span(ready).subspan(first));  // in the loop
//   logs.Forget(pid);                                                              // when waitpid() has told its end
//
// A child never waits for its log: a line that finds the pipe full is left out, and log.h counts it. This process does not wait
// either: it reads no pipe while its own stderr takes nothing. Lines are made printable. A line that does not begin with the
// child's name gets that in front, so that no child speaks for another.
//
// One thread. Nothing here waits.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class ChildLogs {
 public:
  // How much a child may write at once, and then per second. A line counts for kLineBytes more than it has.
  static constexpr int64_t kBurstBytes = 256 * 1024;
  static constexpr int64_t kBytesPerSecond = 64 * 1024;
  static constexpr int64_t kLineBytes = 64;
  // The same for all children together. They take turns while that is used up.
  static constexpr int64_t kBurstBytesOfAll = 4 * kBurstBytes;
  static constexpr int64_t kBytesPerSecondOfAll = 4 * kBytesPerSecond;
  static constexpr size_t kPieceBytes = 4096;
  // Longer lines are broken.
  static constexpr size_t kLineBytesMax = 3950;
  // Ended children whose last lines still wait to be written. With one more, the lines of the first are lost, and the log says
  // so.
  static constexpr size_t kEndedMax = 16;

  // As StartProgram(), with the pipe as the child's stdout and stderr. `log_name`: the child's name in SetLogName().
  Result<pid_t> Start(const std::string& path, const std::string& name, const std::string& log_name,
                      const std::vector<std::string>& arguments, const std::vector<int>& passed,
                      std::optional<std::vector<std::string>> environment = std::nullopt);

  // Adds what poll() is to wait for.
  void Watch(std::vector<pollfd>* watched) const;
  // When a child that has written too much may be read again (MonotonicNs; the largest number: never).
  uint64_t next_ns() const;
  // The same as a timeout for a poll() that waits for nothing else.
  int PollTimeoutMs() const;
  // Writes what has come. `ready`: as Watch() has added it.
  void Relay(std::span<const pollfd> ready);
  // The same for all children, without a poll() before.
  void Relay();
  // A child has ended: writes the rest.
  void Forget(pid_t pid);

 private:
  // How much may be written as of `at_ns`; below 0: that much too much was written.
  struct Allowance {
    int64_t bytes;
    int64_t bytes_per_second;
    int64_t burst_bytes;
    uint64_t at_ns;
    void Grow(uint64_t now_ns);
    // Whether a pipe may be read, and when it next may.
    bool IsEnough() const;
    uint64_t EnoughNs() const;
  };
  struct Child {
    pid_t pid;
    std::string name;
    UniqueFd pipe;
    Allowance allowance;
    std::string unwritten = {};
    bool ended = false;
  };

  void Allow(Child& child);
  bool MayRead(const Child& child) const { return child.allowance.IsEnough() && of_all_.IsEnough(); }
  // Writes one piece, or the rest of one. False when there is no more, or no more may be written now.
  bool RelayPiece(Child& child);
  // False when stderr takes nothing.
  bool WriteLines(Child& child);
  void WriteLine(Child& child, std::string_view line);
  void RelayEnded();

  std::list<Child> children_;  // the first has its turn
  Allowance of_all_{kBurstBytesOfAll, kBytesPerSecondOfAll, kBurstBytesOfAll, 0};
  bool told_of_all_ = false;  // the log says already that of_all_ is used up
  bool room_ = true;          // stderr took the last line
};

}  // namespace tessera
