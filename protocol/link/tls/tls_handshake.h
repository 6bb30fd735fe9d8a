// The handshake of TLS 1.3, by OpenSSL: both sides show their certificates and agree on keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/tls/tls_records.h"
#include "protocol/link/tls/tls_words.h"

namespace tessera {

struct TlsObserved;

// The result of a handshake.
struct TlsSession {
  bool client = false;  // this side
  TlsSecret sending;
  TlsSecret receiving;
  std::vector<std::byte> received;  // bytes of records that have already followed
  CertificateDescription peer;
  std::shared_ptr<SSL> ssl;  // of the handshake; its own records begin with `received`
};

// A handshake by itself, without a socket. One thread.
class TlsHandshake {
 public:
  // What `parties` refers to outlives this object.
  explicit TlsHandshake(const TlsParties& parties);
  ~TlsHandshake();
  TlsHandshake(const TlsHandshake&) = delete;

  // Takes bytes from the peer, none at first. Ok: the handshake goes on, or is done(). A failure ends it, with a sentence that
  // says what to do; Outgoing() may still have an alert for the peer.
  Status Take(std::span<const std::byte> bytes);
  bool done() const { return done_; }
  // The bytes to send now.
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

// Shakes hands on a connected, non-blocking socket until `deadline_ns` (MonotonicNs). Failures of TlsHandshake; kTimedOut;
// kUnavailable when the peer leaves. A peer that speaks plain TCP is told that this is TLS. `understood`: called once, before the
// peer's first message, which was right, is answered.
Result<TlsSession> ShakeHands(
    int socket, const TlsParties& parties, uint64_t deadline_ns, const std::function<void()>& understood = [] {});

}  // namespace tessera
