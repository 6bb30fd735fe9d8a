// A link over a plain TCP connection: neither encrypted nor authenticated. Its user has to see to who may connect.
//
//   client's host                                   server's host
//   ConnectTcp(address, insecure, deadline)         TcpListener::Bind(address, insecure)
//                                                   AcceptTcp(listener.Accept(), deadline)
//
// Both ends begin with a preamble (preamble.h), then there are frames (stream_link.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_listener.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Connects, trying the host's addresses one after the other until `deadline_ns` (MonotonicNs; name lookup apart). Besides
// the errors of Resolve() and CheckSecure(): kUnavailable (nobody listens, no way there), kTimedOut (no answer),
// kProtocolViolation (somebody else listens), kVersionMismatch. Each sentence says what to do next. `dial`: makes the socket,
// where there is one. Any thread.
Result<std::unique_ptr<Link>> ConnectTcp(const LinkAddress& address, bool insecure, uint64_t deadline_ns,
                                         const DialSocket& dial = {});

// Makes an attempt to connect. If the listener hangs up before it has said anything (`*hung_up`) it makes a few more, until
// `deadline_ns`: a gateway hangs up on the oldest when many connect at once. Returns the first result, unless a later one says
// more. Every attempt sets `*hung_up`.
using ConnectAttempt = std::function<Result<std::unique_ptr<Link>>(uint64_t deadline_ns, bool* hung_up)>;
Result<std::unique_ptr<Link>> ConnectAgain(uint64_t deadline_ns, const ConnectAttempt& attempt);

// The other end of ConnectTcp() for a connection that a listener took. kProtocolViolation for a peer that is no tessera,
// kVersionMismatch for one of another version (which is told ours), kTimedOut for one that says nothing until the deadline. A
// peer that speaks TLS is told the preamble as well, so that it can say what is wrong.
Result<std::unique_ptr<Link>> AcceptTcp(UniqueFd connection, uint64_t deadline_ns);

// "10.0.0.7:40312", for logs; the far end of a connection.
std::string DescribeTcpPeer(int connection);

// A link over a connected socket whose preambles have been exchanged.
Result<std::unique_ptr<Link>> MakeTcpLink(UniqueFd socket);

class TcpListener : public LinkListener {
 public:
  // Connections that the kernel keeps until we accept them: enough when many strangers connect at once.
  static constexpr int kBacklog = 4096;

  // kUnavailable when somebody listens there already, kInvalidArgument when it is no address of this host; errors of
  // Resolve() and CheckSecure().
  static Result<TcpListener> Bind(const LinkAddress& address, bool insecure);
  // Goes on with a socket of Bind() that another process has kept (Release()). Only system errors.
  static Result<TcpListener> Adopt(UniqueFd socket, const LinkAddress& address);
  UniqueFd Release() { return std::move(socket_); }

  int fd() const override { return socket_.get(); }
  const LinkAddress& address() const override { return address_; }
  Result<UniqueFd> Accept() override;
  std::string DescribePeer(int connection) const override { return DescribeTcpPeer(connection); }
  Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) override;

 private:
  TcpListener(UniqueFd socket, LinkAddress address) : socket_(std::move(socket)), address_(std::move(address)) {}

  UniqueFd socket_;
  LinkAddress address_;
};

}  // namespace tessera
