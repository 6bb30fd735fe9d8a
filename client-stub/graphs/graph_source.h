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

// The memory that one node reads, and snapshots of it: one for each launch that read it and has not used it yet, oldest first.
struct GraphSource {
  struct Snapshot {
    uint64_t number;
    HandleId exec;
    std::vector<std::byte> bytes;
  };
  explicit GraphSource(const HostRows& rows) : rows(rows) {}

  // The first instance that asks becomes the owner. Returns whether `exec` is the owner.
  bool Claim(HandleId exec) EXCLUDES(mutex);
  // Takes a snapshot for one launch of `exec` and returns its number; 0: the session ended meanwhile. Launches of one instance
  // run in order, but launches of two may not. So it waits until all snapshots of other instances are used or have the same
  // bytes.
  uint64_t Read(Session& session, HandleId exec) EXCLUDES(mutex);
  // Forgets a snapshot: its launch was not sent.
  void Drop(uint64_t number) EXCLUDES(mutex);
  // Writes what the node that runs now has to read: the oldest snapshot. If nobody knew that it would run there is no snapshot,
  // and the memory is read now. `to` has room for rows.bytes().
  void Use(std::byte* to) EXCLUDES(mutex);

  const HostRows rows;
  HostCopyNodeRecord record{};  // of its node; set before other threads can find the source
  Mutex mutex;
  ConditionVariable used;
  HandleId owner GUARDED_BY(mutex);
  uint64_t last_number GUARDED_BY(mutex) = 0;
  std::deque<Snapshot> snapshots GUARDED_BY(mutex);
};

// The sources by the number of their visit. The visit owns its source.
class GraphSources {
 public:
  static GraphSources& Process() { return PartOfProcess<GraphSources>::Get(); }

  void Add(uint64_t visit, const std::shared_ptr<GraphSource>& source) EXCLUDES(mutex_);
  // Null: the visit has ended, or has no source.
  std::shared_ptr<GraphSource> Find(uint64_t visit) EXCLUDES(mutex_);
  // The process ever had a source.
  bool used() const { return used_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> used_{false};
  Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<GraphSource>> sources_ GUARDED_BY(mutex_);
};

}  // namespace tessera
