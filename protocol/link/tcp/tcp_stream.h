// A connected TCP socket for two threads, one that sends and one that receives. All links over TCP use it.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"

namespace tessera {

// A host that does not answer for so long counts as dead, and the link fails, idle or not. Long enough for a busy host, for a
// process that is moved, for a cable that is plugged in again.
inline constexpr int kTcpSilenceMsMax = 8'000;

class TcpStream {
 public:
  // Prepares a connected socket, which is non-blocking: it sends at once, and notices a dead host within kTcpSilenceMsMax
  // (tcp_link.h), both when something waits to be acknowledged and when nothing is said.
  static Result<std::unique_ptr<TcpStream>> Make(UniqueFd socket);
  // Stops. Gives the other end a second, counted from the first stop, to take what was sent.
  ~TcpStream();

  // Sends all of `parts`, whose iovecs it uses up. Waits while there is no room, until Stop(). kUnavailable once the connection
  // is lost or stopped; some of it may have been sent then. One thread at a time.
  Status Send(std::span<iovec> parts);
  // Waits for bytes and puts them into `parts`, in order; how many. kUnavailable once the connection has ended or is lost, or
  // was stopped and nothing more had arrived; kTimedOut at the deadline. One thread at a time.
  Result<size_t> Receive(std::span<iovec> parts);
  // The deadline of Receive() (MonotonicNs); kNoDeadline at first. The receiving thread.
  void SetDeadline(uint64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  // Whether the other end has closed its direction in order, as TCP sees it. The receiving thread.
  bool at_end() const { return at_end_; }

  // Ends all waits. Any thread, any number of times.
  void Stop();
  bool stopped() const { return stopped_ns_.load() != 0; }
  // Stops, and drops what is on its way: for a connection that is of no use any more. Any thread, any number of times.
  void Drop();
  // Closes our direction behind what was sent. Any thread, any number of times.
  void EndSending();

 private:
  TcpStream(UniqueFd socket, UniqueFd wake) : socket_(std::move(socket)), wake_(std::move(wake)) {}
  // Waits until the socket is ready for `events`, or this was stopped, or for the deadline. False at the deadline.
  bool Await(short events, uint64_t deadline_ns);

  const UniqueFd socket_;
  const UniqueFd wake_;                  // an eventfd: readable once this was stopped
  std::atomic<uint64_t> stopped_ns_{0};  // when; 0: not yet
  std::atomic<bool> dropped_{false};

  // Of the receiving thread.
  AdaptiveSpin spin_;
  uint64_t deadline_ns_ = kNoDeadline;
  bool at_end_ = false;
};

// The messages about a link that this side has closed, or the other in order.
Status LinkClosed();

// Discards what still comes on a socket until the other end has closed too, for a second at most or until `deadline_ns`. Closing
// a socket with unread data would reset the connection, and lose what was sent.
void LingerOnSocket(int socket);
void LingerOnSocket(int socket, uint64_t deadline_ns);

// Waits until the socket is ready or hung up. kTimedOut at the deadline.
Status AwaitSocket(int socket, short events, uint64_t deadline_ns);

// A socket connected to one of a host's addresses, tried one after the other. `insecure`: an address beyond this host is allowed.
// `program`: what should listen there, for messages. Errors of ConnectLink().
Result<UniqueFd> ConnectTcpSocket(const LinkAddress& address, bool insecure, uint64_t deadline_ns,
                                  const char* program = "tessera-gateway");

// The failure when `address` does not answer in time.
Status NoAnswer(const LinkAddress& address);
// The failure when another program listens at `address`.
Status NoGateway(const LinkAddress& address, const char* program = "tessera-gateway");

// kUnavailable, with the reason why a connection is over.
Status DescribeTcpLoss(int error);

}  // namespace tessera
