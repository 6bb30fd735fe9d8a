// A link over UCX: RDMA where both hosts have it, UCX's own TCP elsewhere. Plain: neither encrypted nor authenticated.
//
//   client's host                                   server's host
//   ConnectUcx(address, insecure, deadline)         UcxListener::Bind(address, insecure)
//                                                   listener.Finish(listener.Accept(), deadline)
//
// Every frame is an active message of UCX: a header of 48 bytes (UcxMessage in ucx_parts.h) with the FrameHeader and a number,
// since UCX keeps no order, and the payload. A payload of kUcxRendezvousBytes or more stays with its sender until the receiver
// knows its place, and is then read from there straight into it, by the network card where there is one that can; a smaller one
// comes along. What Link::Register() named is registered with the card once, other memory passes through a buffer that is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/link/tcp_address.h"

namespace tessera {

inline constexpr uint64_t kUcxRendezvousBytes = uint64_t{64} << 10;

// Loads UCX (ucx_library.h); to be called before there are threads by programs that use the rest of this header, which otherwise
// do it themselves. kNotFound with the package that is missing.
Status PrepareUcx();

// Connects, trying the host's addresses one after the other until `deadline_ns` (MonotonicNs; name lookup apart). Besides the
// errors of PrepareUcx(), Resolve() and CheckSecure(): kUnavailable (nobody listens, no device or transport leads there, no device
// here), kTimedOut (no answer), kProtocolViolation (somebody else listens), kVersionMismatch. Any thread.
Result<std::unique_ptr<Link>> ConnectUcx(const TcpAddress& address, bool insecure, uint64_t deadline_ns);

// Where links arrive.
class UcxListener {
 public:
  // Connections that are held for Accept(); further ones are rejected.
  static constexpr size_t kBacklog = 64;

  // kUnavailable when somebody listens there already, kInvalidArgument when it is no address of this host; errors of
  // PrepareUcx(), Resolve() and CheckSecure().
  static Result<std::unique_ptr<UcxListener>> Bind(const TcpAddress& address, bool insecure);
  ~UcxListener();  // no thread is in Finish()

  int fd() const;  // for poll(2): readable when Accept() has something
  // As bound: with the port that the kernel chose when it was 0.
  const TcpAddress& address() const;
  // The next connection, which is no link yet, as a descriptor that stands for it. kTimedOut when none waits. One thread.
  Result<UniqueFd> Accept();
  // Who has connected: "10.0.0.7:40312". Any thread.
  std::string DescribePeer(int connection) const;
  // Makes a link of a connection of Accept(). kTimedOut for a peer that says nothing until `deadline_ns`, kProtocolViolation for
  // one that is no tessera, kVersionMismatch for one of another version (which is told ours), kUnavailable for one that leaves.
  // shutdown(2) of the connection ends the wait. Any thread, several at once.
  Result<std::unique_ptr<Link>> Finish(UniqueFd connection, uint64_t deadline_ns);

 private:
  struct State;
  explicit UcxListener(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace tessera
