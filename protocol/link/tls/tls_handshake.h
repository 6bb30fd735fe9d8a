// The begin of a TLS 1.3 connection: both sides show their certificates, and agree on keys. OpenSSL does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/link/tls/tls_words.h"

namespace tessera {

struct TlsObserved;

// What a handshake leaves.
struct TlsSession {
  bool client = false;  // this side
  TlsSecret sending;
  TlsSecret receiving;
  std::vector<std::byte> received;  // of records that already followed
  CertificateDescription peer;
  std::shared_ptr<SSL> ssl;  // of the handshake; its own records begin with `received`
};

// A handshake by itself, without a socket. One thread.
class TlsHandshake {
 public:
  // What `parties` refers to outlives this.
  explicit TlsHandshake(const TlsParties& parties);
  ~TlsHandshake();
  TlsHandshake(const TlsHandshake&) = delete;

  // Takes bytes from the peer, none at first. Ok: go on (done() says whether there is something to wait for). A failure, whose
  // sentence says what to do: over; Outgoing() may still have what the peer is to hear.
  Status Take(std::span<const std::byte> bytes);
  bool done() const { return done_; }
  // What is to be sent now.
  std::vector<std::byte> Outgoing();
  // After done(), once.
  TlsSession Finish();

 private:
  Status Describe();

  const TlsParties parties_;
  const std::shared_ptr<SSL> ssl_;
  std::unique_ptr<TlsObserved> observed_;
  bool done_ = false;
};

// Shakes hands on a connected, non-blocking socket until `deadline_ns` (MonotonicNs). Besides the failures of TlsHandshake:
// kTimedOut, kUnavailable when the peer leaves; a peer that speaks plain TCP is told that this is TLS.
Result<TlsSession> ShakeHands(int socket, const TlsParties& parties, uint64_t deadline_ns);

}  // namespace tessera
