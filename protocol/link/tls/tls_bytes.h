// Bytes both ways over a connection whose TLS handshake is over, whoever makes its records: TlsStream (ours) or TlsOpensslStream.
// One thread sends while another receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"

namespace tessera {

class TlsBytes {
 public:
  virtual ~TlsBytes() = default;

  // Sends `first` and then `second`. Errors as of TcpStream::Send(); after one nothing can follow. One thread at a time.
  virtual Status Send(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  // Fills `to`, which holds nothing that counts while it is not full. kUnavailable at the end, in order or not, or once closed;
  // kProtocolViolation for what is no TLS of this peer, kTimedOut at the deadline. After a failure, the same for ever. One
  // thread.
  virtual Status Fill(std::span<std::byte> to) = 0;
  // For Fill(); kNoDeadline at first. The receiving thread.
  virtual void SetDeadline(uint64_t deadline_ns) = 0;
  // The alert (RFC 8446, 6) with which the peer ended it, -1: none. The receiving thread.
  virtual int alert() const = 0;

  // Says goodbye behind what was sent, or what was wrong with what came, as soon as no Send() runs, and ends both directions. Any
  // thread, any number of times.
  virtual void Close() = 0;
  // As of TcpStream: ends both directions at once, without a goodbye.
  virtual void Drop() = 0;

 protected:
  // The sentences for ends of links, the same for both.
  static Status EndedByAlert(int alert);
  static Status CutOff();
};

}  // namespace tessera
