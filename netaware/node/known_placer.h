// What a node knows of the placer of its pool, also while that is away and after a restart: the pool's name, whose tickets count,
// and the placer's clock. In the store it is below "placer/".
//
// One thread; the store outlives it.
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
  // The placer's clock may have moved so far against CLOCK_REALTIME before that is stored anew.
  static constexpr int64_t kDriftMs = 1'000;

  // kInvalidArgument: what is stored is damaged, and the sentence names the key.
  static Result<KnownPlacer> Open(Store& store, NodeTime now);

  // What a placer says when it takes this node. kInvalidArgument: it is of another pool, or a key is none.
  Status Check(const std::string& cluster, const std::vector<std::string>& keys) const;
  // From now on that counts. Errors as of Check(), and kResourceExhausted: the store failed. Nothing has changed then.
  Status Learn(const std::string& cluster, const std::vector<std::string>& keys, int64_t placer_ms, NodeTime now);
  // Its clock, again.
  void Learn(int64_t placer_ms, NodeTime now);

  // Empty: no placer was met yet.
  const std::string& cluster() const { return cluster_; }
  const TicketKeys& keys() const { return keys_; }
  // By the placer's clock; by this host's where no placer was met.
  int64_t PlacerMs(NodeTime now) const { return now.steady_ms + offset_ms_; }

 private:
  explicit KnownPlacer(Store& store) : store_(&store) {}

  Store* store_;
  std::string cluster_;
  TicketKeys keys_;
  int64_t offset_ms_ = 0;       // of the placer's clock, to CLOCK_MONOTONIC
  int64_t stored_wall_ms_ = 0;  // to CLOCK_REALTIME, as it is stored
};

}  // namespace tessera
