// Where links of one kind arrive.
//
//   one thread: poll(listener.fd()), Accept()        a thread per connection: Finish(connection, deadline)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"

namespace tessera {

// A link, and who is at the other end of it, for logs: "10.0.0.7:40312".
struct AcceptedLink {
  std::unique_ptr<Link> link;  // null: one of several connections of a link, not the last
  std::string peer;
  std::string name = {};  // the proved name, from its certificate; empty: none was proved
};

// How far a peer has come, as told in the thread that makes the link. Empty functions are not called.
struct PeerProgress {
  // At tls://: its first message was right, and it is answered. Elsewhere a first message that is right proves it.
  std::function<void()> understood = {};
  // It has shown that it is one of ours: at tls:// by its certificate, elsewhere by its preamble.
  std::function<void()> proved = {};

  void Understood() const {
    if (understood) understood();
  }
  void Proved() const {
    if (proved) proved();
  }
};

class LinkListener {
 public:
  virtual ~LinkListener() = default;

  virtual int fd() const = 0;  // for poll(2): readable when Accept() has something
  // As bound: with the port that the kernel chose when it was 0.
  virtual const LinkAddress& address() const = 0;
  // The next connection, which is no link yet. Does not wait for the peer. kTimedOut: none is there. kResourceExhausted: this
  // process lacks descriptors or memory. One thread.
  virtual Result<UniqueFd> Accept() = 0;
  // Who has connected, as far as that is known before Finish(): "10.0.0.7:40312". Any thread.
  virtual std::string DescribePeer(int connection) const = 0;
  // Makes a link of a connection of Accept() until `deadline_ns` (MonotonicNs), and tells meanwhile how far the peer is.
  // shutdown(2) of the connection, or of a duplicate, ends the wait. Any thread, several at once. kTimedOut: the peer said too
  // little until then. kProtocolViolation: it is no tessera. kVersionMismatch: it is of another version. kPermissionDenied: it
  // may not connect. kUnavailable: it left.
  virtual Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) = 0;
};

}  // namespace tessera
