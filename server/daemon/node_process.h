// The node that a daemon starts for --placer (netaware/node): joins this server to a pool, and knows which vGPUs a ticket stands
// for. A child of its own, so that nothing here has to do with a placer; started anew when it ends. Sessions do not notice.
//
// One thread. Nothing here waits, but Stop().
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
  // From the end of one to the start of the next: this, then twice as long each time it ends within kShortNs, at most 64 times.
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
  // No error while none runs: whoever asks does so again when Tend() says that one was started.
  void Ask(const TicketQuestion& question);
  std::vector<TicketAnswer> Hear();
  // Starts the next one when it is time. True: it knows of no question yet.
  bool Tend();
  // When Tend() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const;
  // A child has ended: whether it was the node.
  bool Forget(pid_t pid, int wait_status);
  // Ends it for good.
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
