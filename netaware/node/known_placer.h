// A node's knowledge of its pool's placer: the pool's name, the keys whose tickets are valid, and the placer's clock. It stays
// valid while the placer is away and after a restart of the node. In the store its keys begin with "placer/".
//
// One thread; the store has to outlive the object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netaware/store/store.h"
#include "protocol/base/status.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {

// Clocks of this host, in milliseconds.
struct NodeTime {
  int64_t steady_ms = 0;  // CLOCK_MONOTONIC
  int64_t wall_ms = 0;    // CLOCK_REALTIME
};

class KnownPlacer {
 public:
  // The offset of the placer's clock to CLOCK_REALTIME is stored again when it has changed by this much.
  static constexpr int64_t kDriftMs = 1'000;

  // kInvalidArgument: the stored state is damaged; the sentence names the key.
  static Result<KnownPlacer> Open(Store& store, NodeTime now);

  // Checks the pool's name and the ticket keys of a placer's welcome. kInvalidArgument: the placer is of another pool, or a key
  // is malformed.
  Status Check(const std::string& cluster, const std::vector<std::string>& keys) const;
  // Stores the welcome's values, which are in force from now on. Errors: those of Check(), and kResourceExhausted if the store
  // failed. After an error nothing has changed.
  Status Learn(const std::string& cluster, const std::vector<std::string>& keys, int64_t placer_ms, NodeTime now);
  // Updates the placer's clock.
  void Learn(int64_t placer_ms, NodeTime now);

  // The pool's name; empty: this node has never reached a placer.
  const std::string& cluster() const { return cluster_; }
  const TicketKeys& keys() const { return keys_; }
  // The time by the placer's clock, in ms; by this host's clock if this node has never reached a placer.
  int64_t PlacerMs(NodeTime now) const { return now.steady_ms + offset_ms_; }

 private:
  explicit KnownPlacer(Store& store) : store_(&store) {}

  Store* store_;
  std::string cluster_;
  TicketKeys keys_;
  int64_t offset_ms_ = 0;       // the placer's clock minus CLOCK_MONOTONIC
  int64_t stored_wall_ms_ = 0;  // the placer's clock minus CLOCK_REALTIME, as stored
};

}  // namespace tessera
