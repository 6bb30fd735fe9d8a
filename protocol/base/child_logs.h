// The logs of this process's children. Each child writes to a pipe of its own, which this process reads and writes to its log:
// what others have taken over holds neither a terminal nor a file of whoever started the server.
//
//   ChildLogs logs;
//   Result<pid_t> pid = logs.Start(path, "tessera-gateway", "tessera-gateway", arguments, {});
//   logs.Watch(&ready);  poll(...);  logs.Relay(std::span(ready).subspan(first));  // in the loop
//   logs.Forget(pid);                                                              // when waitpid() has told its end
//
// A child never waits for its log: what finds a full pipe is left out, and log.h counts it. This process does not wait either:
// while its own stderr takes nothing the pipes are not read. Lines are made printable. One that does not begin with the child's
// name gets it in front, so that no child speaks for another one.
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
  // What a child may write at once, and from then on per second; a line counts for kLineBytes more than it has.
  static constexpr int64_t kBurstBytes = 256 * 1024;
  static constexpr int64_t kBytesPerSecond = 64 * 1024;
  static constexpr int64_t kLineBytes = 64;
  // The same of all children together; while that is used up they take turns.
  static constexpr int64_t kBurstBytesOfAll = 4 * kBurstBytes;
  static constexpr int64_t kBytesPerSecondOfAll = 4 * kBytesPerSecond;
  static constexpr size_t kPieceBytes = 4096;
  // Longer lines are broken.
  static constexpr size_t kLineBytesMax = 3950;
  // Children that have ended and whose last words wait until stderr takes them, or more may be written; those of the first are
  // lost then, and the log says so.
  static constexpr size_t kEndedMax = 16;

  // As StartProgram(); stdout and stderr of the child are its pipe. `log_name`: as it names itself by SetLogName().
  Result<pid_t> Start(const std::string& path, const std::string& name, const std::string& log_name,
                      const std::vector<std::string>& arguments, const std::vector<int>& passed,
                      std::optional<std::vector<std::string>> environment = std::nullopt);

  // Adds what poll() is to wait for.
  void Watch(std::vector<pollfd>* watched) const;
  // When there is something to read again of a child that has written too much (MonotonicNs; the largest number: never).
  uint64_t next_ns() const;
  // The same for poll(), which waits for nothing else.
  int PollTimeoutMs() const;
  // Writes what has come. `ready`: as Watch() has added it.
  void Relay(std::span<const pollfd> ready);
  // As above, of all children, without having waited.
  void Relay();
  // A child has ended: writes the rest.
  void Forget(pid_t pid);

 private:
  // What may be written, below 0: what was written too much; and when that was so.
  struct Allowance {
    int64_t bytes;
    int64_t bytes_per_second;
    int64_t burst_bytes;
    uint64_t at_ns;
    void Grow(uint64_t now_ns);
    // Whether a pipe may be read, and when next.
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
  // One piece, or what is left of one. False when there is no more, or no more may be written now.
  bool RelayPiece(Child& child);
  // False when stderr takes nothing.
  bool WriteLines(Child& child);
  void WriteLine(Child& child, std::string_view line);
  void RelayEnded();

  std::list<Child> children_;  // whose turn it is is the first
  Allowance of_all_{kBurstBytesOfAll, kBytesPerSecondOfAll, kBurstBytesOfAll, 0};
  bool told_of_all_ = false;  // that it was used up, since it last was not
  bool room_ = true;          // stderr took the last line
};

}  // namespace tessera
