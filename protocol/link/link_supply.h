// Gives a session its next link when one is lost. The client's host connects again; the server's host waits for the link that
// comes back (returning_links.h). To a relay both are the same.
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
  // The payload of the other end's first frame, kResume; empty if this end connected and speaks first.
  std::vector<std::byte> said;
};

class LinkSupply {
 public:
  virtual ~LinkSupply() = default;
  // Waits for a link that replaces a lost one. kTimedOut at `deadline_ns` (MonotonicNs), kUnavailable after Stop(). Every other
  // failure is final too, with a sentence for people. One thread.
  virtual Result<NextLink> Next(uint64_t deadline_ns) = 0;
  // Nobody wants a link any more: Next() returns soon. Any thread, any number of times.
  virtual void Stop() = 0;
};

// A supply that calls `connect` (with a deadline, MonotonicNs) again and again, with growing pauses of at most half a second.
// Only kVersionMismatch and kPermissionDenied are final: a connection that was cut in its preamble looks like a stranger's.
using ConnectFunction = std::function<Result<std::unique_ptr<Link>>(uint64_t deadline_ns)>;
std::unique_ptr<LinkSupply> MakeReconnecting(ConnectFunction connect);

}  // namespace tessera
