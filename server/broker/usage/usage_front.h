// The broker's side of usage records: tells their keeper once a second what was counted, and asks it for others.
//
//   Result<UsageFront*> usage = UsageFront::Start(std::move(line), board);    // in the sandbox
//   usage.value()->Ask(query, [](Result<std::vector<UsageAnswer::Row>> rows) { ... });
//
// One thread, less urgent than the broker's, which it asks for nothing. A keeper that does not read loses what does not fit into
// the socket, and a word in the log says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/broker/metrics.h"
#include "server/usage/usage_line.h"

namespace tessera {

class UsageFront {
 public:
  static constexpr int kNice = 5;
  static constexpr size_t kAskedMax = 8;  // questions at a time
  static constexpr uint64_t kAnswerNs = 20'000'000'000;

  using Rows = Result<std::vector<UsageAnswer::Row>>;
  using Heard = std::function<void(Rows rows)>;

  // Starts a thread that goes on until the process ends; so does `board`, and what is returned.
  static Result<UsageFront*> Start(UniqueFd line, MetricsBoard& board);

  // Any thread. `heard` is called once, in the front's thread, or at once: kUnavailable: too many ask, or nobody answers; others
  // are the keeper's. The query's id does not matter.
  void Ask(UsageQuery query, Heard heard);

 private:
  struct Asked {
    Heard heard;
    std::vector<UsageAnswer::Row> rows{};
    uint64_t until_ns = 0;
  };

  UsageFront(UniqueFd line, MetricsBoard& board) : line_(std::move(line)), board_(board) {}
  void Run();
  void Tell();
  void Hear();
  void GiveUp();
  void Finish(uint64_t id, Rows rows);

  const UniqueFd line_;
  MetricsBoard& board_;
  std::shared_ptr<const Metrics> told_;
  bool lost_ = false;  // what was told last did not arrive
  Mutex mutex_;
  uint64_t last_id_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Asked> asked_ GUARDED_BY(mutex_);
};

}  // namespace tessera
