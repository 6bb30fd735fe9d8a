// Makes a link of several connections (striped_link.h), over links of any kind:
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

// Calls `connect` `connections` times (1 to kConnectionsMax) and makes one link of the results. Errors of `connect` and of
// MakeStripedLink(). The kJoin of a single connection goes out with the next frame.
Result<std::unique_ptr<Link>> ConnectJoined(uint32_t connections, const std::function<Result<std::unique_ptr<Link>>()>& connect);

// A listener whose Finish() makes links of the connections that `listener` accepts. The last connection of a link gets the whole
// link; the AcceptedLink of the others has none. No thread waits for missing connections: an incomplete link that is too old is
// dropped when the next connection comes. Errors of `listener`, which has to end the wait for a first frame too (shutdown(2)).
// kProtocolViolation: connections do not belong together, or have different peers.
std::unique_ptr<LinkListener> MakeJoiningListener(std::unique_ptr<LinkListener> listener);

}  // namespace tessera
