// The node that a daemon starts for --placer (netaware/node). It joins this server to a pool, and knows the vGPUs of a ticket. It
// is a child process, so the daemon has nothing to do with a placer. It is started again when it ends; sessions do not notice.
//
// One thread. Only Stop() waits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/node/node_line.h"
#include "server/daemon/options.h"

namespace tessera {

class NodeProcess {
 public:
  // The pause from the end of one node to the start of the next. It doubles each time that a node ends within kShortNs, up to 64
  // times this.
  static constexpr uint64_t kPauseNs = 100'000'000;
  static constexpr uint64_t kShortNs = 2'000'000'000;
  static constexpr int kPausesMax = 6;
  // How long it may take to end in order.
  static constexpr uint64_t kEndNs = 500'000'000;

  NodeProcess(const Options& options, ChildLogs& logs) : options_(options), logs_(logs) {}

  // Ok, and does nothing, without --placer. `urls`: where clients reach this server. kNotFound: there is no such program.
  Status Start(std::vector<std::string> urls);

  // For poll(); -1 while none runs.
  int fd() const { return line_.get(); }
  // Asks the node. No error while none runs: the caller asks again when Tend() says that one was started.
  void Ask(const TicketQuestion& question);
  std::vector<TicketAnswer> Hear();
  // Starts the next node when it is time. True: it was started, and knows no question yet.
  bool Tend();
  // When Tend() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const;
  // A child has ended. Returns whether it was the node.
  bool Forget(pid_t pid, int wait_status);
  // Ends the node for good.
  void Stop();

 private:
  Status Launch();

  const Options& options_;
  ChildLogs& logs_;
  std::vector<std::string> urls_;
  pid_t pid_ = -1;
  UniqueFd line_;
  uint64_t started_ns_ = 0;
  uint64_t start_at_ns_ = 0;  // 0: it is not to be started
  int crashes_ = 0;           // in a row
};

}  // namespace tessera
