// Bytes both ways over a connection after its TLS handshake. TlsStream (ours) or TlsOpensslStream makes the records. One thread
// sends while another receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"

namespace tessera {

class TlsBytes {
 public:
  virtual ~TlsBytes() = default;

  // Sends `first` and then `second`. Errors of TcpStream::Send(); after an error nothing more can be sent. One thread at a time.
  virtual Status Send(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  // Fills all of `to`; on a failure its contents do not count. kUnavailable at the end of the connection or once it is closed,
  // kProtocolViolation for bytes that are not this peer's TLS, kTimedOut at the deadline. A failure is final. One thread.
  virtual Status Fill(std::span<std::byte> to) = 0;
  // The deadline of Fill(); kNoDeadline at first. The receiving thread.
  virtual void SetDeadline(uint64_t deadline_ns) = 0;
  // The alert (RFC 8446, 6) with which the peer ended the connection; -1: none. The receiving thread.
  virtual int alert() const = 0;

  // Ends both directions. As soon as no Send() runs it says goodbye, or what was wrong with the peer's bytes. Any thread, any
  // number of times.
  virtual void Close() = 0;
  // Ends both directions at once, without a goodbye, as TcpStream's.
  virtual void Drop() = 0;

 protected:
  // The messages for ends of links, the same for both kinds.
  static Status EndedByAlert(int alert);
  static Status CutOff();
};

}  // namespace tessera
