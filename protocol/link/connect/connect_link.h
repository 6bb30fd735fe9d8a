// From an address to a link, on either side, whatever its scheme. The one place that knows all kinds of links.
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

// Does what a kind of link does to a whole process, once: sets its environment, loads its library. A program calls it before it
// has threads. What is missing on this host is said again by the functions below.
Status PrepareLinks(const LinkAddress& address);
// Where the library of PrepareLinks() loads further code from as it goes; empty where links of that scheme have none.
std::vector<std::string> LibraryDirectories(const LinkAddress& address);

// Connects until `deadline_ns` (MonotonicNs; name lookup apart). kNotFound (no such host), kUnavailable (nobody listens, no way
// there), kTimedOut (no answer), kProtocolViolation (somebody else listens), kVersionMismatch, kPermissionDenied (the options
// allow it not, or the other side). Each sentence says what to do next. Any thread.
Result<std::unique_ptr<Link>> ConnectLink(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns);
// LinkOptions::dial for that address, to be called by a process that may connect: with the same errors, as far as they are about
// the socket. Empty where links of that scheme have no socket (ucx).
DialSocket DialFor(const LinkAddress& address, const LinkOptions& options);

// kUnavailable when somebody listens there already, kInvalidArgument when it is no address of this host, kNotFound when there
// is no such host, kPermissionDenied when the options do not allow it.
// `bound`: a socket of BindForLinks() to use; invalid: one of its own.
Result<std::unique_ptr<LinkListener>> ListenForLinks(const LinkAddress& address, const LinkOptions& options, UniqueFd bound = {});

// A socket on which connections queue before there is a listener and while none is, in whichever process. Invalid where links of
// that scheme have no such socket (ucx). Errors as above, of the address alone.
Result<UniqueFd> BindForLinks(const LinkAddress& address, const LinkOptions& options);

// Who may connect without having proved anything: "every user of this host"; empty where everybody has to prove who he is (tls).
// Asks a name server if it must.
std::string WhoMayConnect(const LinkAddress& address);

}  // namespace tessera
