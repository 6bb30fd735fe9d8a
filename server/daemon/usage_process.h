// The keeper of usage records that a daemon starts (server/usage): a child that has a directory and a socket to the broker. This
// daemon has both ends of that, so broker and keeper may end and be started anew without the other.
//
// One that nobody has asked for at the start begins with the first thing that a broker says: a server without vGPUs has none.
// One thread. Nothing here waits, but Prepare() for a keeper that was asked for, and Stop().
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/daemon/options.h"

namespace tessera {

class UsageProcess {
 public:
  static constexpr uint64_t kOpenedNs = 10'000'000'000;
  // From the end of one to the start of the next.
  static constexpr uint64_t kPauseNs = 2'000'000'000;
  // How long it may take to write what is left.
  static constexpr uint64_t kEndNs = 2'000'000'000;

  UsageProcess(const Options& options, ChildLogs& logs) : options_(options), logs_(logs) {}

  // Ok, and does nothing, where there are to be no records. Starts a keeper and waits for it where the user has asked for one.
  // kUnavailable: it cannot keep them; the sentence says why.
  Status Prepare();
  // For brokers; -1: there are no records.
  int brokers_end() const { return brokers_end_.get(); }

  // For poll(); -1: nothing to wait for.
  int fd() const;
  // When Tend() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const;
  // Starts one if it is needed.
  void Tend();
  // A child has ended: whether it was the keeper.
  bool Forget(pid_t pid, int wait_status);
  // Ends it for good.
  void Stop();

 private:
  Status Launch(int opened = -1);
  Status AwaitOpened(int opened);

  const Options& options_;
  ChildLogs& logs_;
  UniqueFd brokers_end_, keepers_end_;
  pid_t pid_ = -1;
  uint64_t start_at_ns_ = 0;  // not before
};

}  // namespace tessera
