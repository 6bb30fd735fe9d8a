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

// Calls `connect` `connections` times (1 to kStripesMax) and makes one link of what it gives. Errors of `connect`, and
// of MakeStripedLink(). What a single connection has to say first goes out with the next frame.
Result<std::unique_ptr<Link>> ConnectJoined(uint32_t connections,
                                            const std::function<Result<std::unique_ptr<Link>>()>& connect);

// A listener whose Finish() makes links of what `listener` accepts. One of the connections of a link gets it as a
// whole, when all have come; the others' AcceptedLink has no link. Besides the errors of `listener`: kProtocolViolation
// for connections that do not belong together (also by who is at their other ends), kTimedOut when one is missing at
// the deadline.
std::unique_ptr<LinkListener> MakeJoiningListener(std::unique_ptr<LinkListener> listener);

}  // namespace tessera
