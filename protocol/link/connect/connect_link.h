// Makes a link from an address of any scheme, on either side. Only this file knows all kinds of links.
//
//   client's host                             server's host
//   ConnectLink(address, options, deadline)   ListenForLinks(address, options)
//                                             listener.Finish(listener.Accept(), deadline)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_listener.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Prepares the process for a kind of link, once: sets the environment, loads the library. Call it before the first thread. The
// functions below repeat its error if something is missing on this host.
Status PrepareLinks(const LinkAddress& address);
// The directories from which the library of PrepareLinks() loads further code; empty: it has none.
std::vector<std::string> LibraryDirectories(const LinkAddress& address);

// Connects until `deadline_ns` (MonotonicNs; the lookup of the name may take longer). kNotFound (no such host), kUnavailable
// (nobody listens, no way there), kTimedOut (no answer), kProtocolViolation (somebody else listens), kVersionMismatch,
// kPermissionDenied (the options or the other side do not allow it). Each sentence says what to do next. Any thread.
Result<std::unique_ptr<Link>> ConnectLink(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns);
// LinkOptions::dial for that address. A process that may connect calls it. Errors are those of ConnectLink() about the socket.
// Empty: links of that scheme have no socket (ucx).
DialSocket DialFor(const LinkAddress& address, const LinkOptions& options);

// kUnavailable when somebody listens there already, kInvalidArgument when it is no address of this host, kNotFound when there is
// no such host, kPermissionDenied when the options do not allow it. `bound`: a socket of BindForLinks(); invalid: the listener
// makes one.
Result<std::unique_ptr<LinkListener>> ListenForLinks(const LinkAddress& address, const LinkOptions& options, UniqueFd bound = {});

// A listening socket for ListenForLinks(). Connections queue on it also while no process has a listener. Invalid: links of that
// scheme have no such socket (ucx). Errors as above, about the address alone.
Result<UniqueFd> BindForLinks(const LinkAddress& address, const LinkOptions& options);

// Who may connect without any proof: "every user of this host"; empty: everybody has to prove who he is (tls). May ask a name
// server.
std::string WhoMayConnect(const LinkAddress& address);

}  // namespace tessera
