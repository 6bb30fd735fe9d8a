// How a link of several connections (striped_link.h) comes about, over links of any kind:
//
//   client's host                                  server's host
//   ConnectJoined(connections, connect)            MakeJoiningListener(listener)
//
// The first frame of every connection, from the client, is a kJoin: `target` says which of the link's connections it
// is, `position` how many there are, and its payload is a ResumeToken that was minted for this link. Those with one
// token are one link.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "protocol/base/status.h"
#include "protocol/link/link.h"
#include "protocol/link/link_listener.h"

namespace tessera {

// Calls `connect` `connections` times (1 to kConnectionsMax) and makes one link of what it gives. Errors of `connect`, and
// of MakeStripedLink(). What a single connection has to say first goes out with the next frame.
Result<std::unique_ptr<Link>> ConnectJoined(uint32_t connections, const std::function<Result<std::unique_ptr<Link>>()>& connect);

// A listener whose Finish() makes links of what `listener` accepts. The last connection of a link to come gets it as a
// whole; the others' AcceptedLink has no link. Nobody waits for it: connections whose others do not come in time are
// dropped when some other comes. Errors of `listener`, which has to end the wait for a first frame too (shutdown(2)),
// and kProtocolViolation for connections that do not belong together, also by who is at their other ends.
std::unique_ptr<LinkListener> MakeJoiningListener(std::unique_ptr<LinkListener> listener);

}  // namespace tessera
