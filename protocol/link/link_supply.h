// Where a session gets its next link from when the one before is lost: the client's host connects again, the server's host waits
// for the link that comes back (returning_links.h). To a relay both are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link.h"

namespace tessera {

struct NextLink {
  std::shared_ptr<Link> link;
  // The payload of the kResume frame with which the other end began; empty where we came to it and speak first.
  std::vector<std::byte> said;
};

class LinkSupply {
 public:
  virtual ~LinkSupply() = default;
  // Waits for a link in the place of one that was lost. kTimedOut at `deadline_ns` (MonotonicNs), kUnavailable after Stop();
  // what else it says is final too, and a sentence for people. One thread.
  virtual Result<NextLink> Next(uint64_t deadline_ns) = 0;
  // Nobody wants a link any more: Next() returns soon. Any thread, any number of times.
  virtual void Stop() = 0;
};

// A supply that calls `connect` (with a deadline, MonotonicNs), again and again, with growing pauses of at most half a second.
// Whatever the failure: a connection that was cut in its preamble looks like a stranger's. Only kVersionMismatch and
// kPermissionDenied are final.
using ConnectFunction = std::function<Result<std::unique_ptr<Link>>(uint64_t deadline_ns)>;
std::unique_ptr<LinkSupply> MakeReconnecting(ConnectFunction connect);

}  // namespace tessera
