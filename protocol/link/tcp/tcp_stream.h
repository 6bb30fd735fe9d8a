// A connected TCP socket that two threads use, one of which sends while the other receives; what the links over TCP share.
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

// A host that does not answer for so long is taken for dead, idle or not: its end of the link fails. Long enough for a host
// that is busy with something else, a process that is moved, a cable that is put in again.
inline constexpr int kTcpSilenceMsMax = 8'000;

class TcpStream {
 public:
  // Prepares a connected socket, which is non-blocking: it sends at once, and notices a dead host within kTcpSilenceMsMax
  // (tcp_link.h), both when something waits to be acknowledged and when nothing is said.
  static Result<std::unique_ptr<TcpStream>> Make(UniqueFd socket);
  // Stops, and gives the other end a second from then, or from when it was stopped, to take what was sent.
  ~TcpStream();

  // Sends all of `parts`, whose iovecs it uses up. Waits while there is no room, until Stop(). kUnavailable once the connection
  // is lost or stopped; half of it may have been sent then. One thread at a time.
  Status Send(std::span<iovec> parts);
  // Waits for bytes and puts them into `parts`, in order; how many. kUnavailable once the connection has ended or is lost, or
  // was stopped and nothing more had arrived; kTimedOut at the deadline. One thread at a time.
  Result<size_t> Receive(std::span<iovec> parts);
  // For Receive(): MonotonicNs, or kNoDeadline, which it begins with. The receiving thread.
  void SetDeadline(uint64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  // Whether the other end has ended its sending in order, as far as TCP is concerned. The receiving thread.
  bool at_end() const { return at_end_; }

  // Nobody waits in here any more. Any thread, any number of times.
  void Stop();
  bool stopped() const { return stopped_ns_.load() != 0; }
  // Stops, and takes back what is on its way: the connection is of no use any more. Any thread, any number of times.
  void Drop();
  // Nothing follows what was sent. Any thread, any number of times.
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

// What is said of a link that this side has closed, or the other in order.
Status LinkClosed();

// Discards what still comes on a socket until the other end has closed too, for a second at most, so that closing the socket
// takes back nothing of what was sent: with unread data behind it a close is a reset. `deadline_ns`: instead of a second.
void LingerOnSocket(int socket);
void LingerOnSocket(int socket, uint64_t deadline_ns);

// Waits until the socket is ready or hung up. kTimedOut at the deadline.
Status AwaitSocket(int socket, short events, uint64_t deadline_ns);

// A socket that is connected to one of the addresses of a host, tried one after the other. Errors as of ConnectLink();
// `insecure`: an address beyond this host will do. `program`: what is to be there, for sentences.
Result<UniqueFd> ConnectTcpSocket(const LinkAddress& address, bool insecure, uint64_t deadline_ns,
                                  const char* program = "tessera-gateway");

// Why nothing more is heard from `address` in time.
Status NoAnswer(const LinkAddress& address);
// Somebody else listens at `address`.
Status NoGateway(const LinkAddress& address, const char* program = "tessera-gateway");

// Why a connection is over, as a Status of kUnavailable.
Status DescribeTcpLoss(int error);

}  // namespace tessera
