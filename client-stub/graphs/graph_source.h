// Ordinary memory that copy nodes of graphs read (graph_shadow.h). Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "client-stub/process/process_part.h"
#include "client-stub/session/session.h"
#include "client-stub/transfers/host_rows.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/graph_params.h"

namespace tessera {

// What one node reads, and what launches that have not run yet have read of it, oldest first.
struct GraphSource {
  struct Snapshot {
    uint64_t number;
    HandleId exec;
    std::vector<std::byte> bytes;
  };
  explicit GraphSource(const HostRows& rows) : rows(rows) {}

  // The first instance that asks has the node for itself: false for others.
  bool Claim(HandleId exec) EXCLUDES(mutex);
  // For one launch of `exec`: the number of the snapshot. Launches of one instance run in their order; whether those of two
  // do is not known, so the other's have to be used up, or be the same bytes. 0 when the session ended meanwhile.
  uint64_t Read(Session& session, HandleId exec) EXCLUDES(mutex);
  // The launch was not sent.
  void Drop(uint64_t number) EXCLUDES(mutex);
  // What the node running now is to read: nothing was read for it when nobody knew that it would.
  void Use(std::byte* to) EXCLUDES(mutex);

  const HostRows rows;
  HostCopyNodeRecord record{};  // of its node; set before others know the source
  Mutex mutex;
  ConditionVariable used;
  HandleId owner GUARDED_BY(mutex);
  uint64_t last_number GUARDED_BY(mutex) = 0;
  std::deque<Snapshot> snapshots GUARDED_BY(mutex);
};

// The sources by the number of their visit, which owns them.
class GraphSources {
 public:
  static GraphSources& Process() { return PartOfProcess<GraphSources>::Get(); }

  void Add(uint64_t visit, const std::shared_ptr<GraphSource>& source) EXCLUDES(mutex_);
  // Null when it is gone.
  std::shared_ptr<GraphSource> Find(uint64_t visit) EXCLUDES(mutex_);
  // There ever was one.
  bool used() const { return used_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> used_{false};
  Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<GraphSource>> sources_ GUARDED_BY(mutex_);
};

}  // namespace tessera
