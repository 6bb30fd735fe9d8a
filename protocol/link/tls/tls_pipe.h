// A pipe between a TLS connection, after its handshake, and a plain socket of this process. So a library that speaks its protocol
// over a descriptor (gRPC) does so under TLS. The records are OpenSSL's.
//
//   TlsPipe pipe(std::move(network), std::move(plain), session);       // both non-blocking stream sockets
//   pipe.Watch(&ready); poll(..., at most until pipe.again_ns());
//   if (!pipe.Move(two of ready, MonotonicNs())) ...                   // it is over; the sockets go with it
//
// Each direction has room for a record and a half, and takes more only when that is gone. So nothing piles up for a side that
// does not read. One thread at a time; nothing waits.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_handshake.h"

namespace tessera {

class TlsPipe {
 public:
  // How long this side waits at the end until the other has taken what was sent.
  static constexpr uint64_t kEndNs = 2'000'000'000;

  // The SSL object of `session` is this one's from now on.
  TlsPipe(UniqueFd network, UniqueFd plain, const TlsSession& session);
  TlsPipe(TlsPipe&&) = default;
  TlsPipe& operator=(TlsPipe&&) = default;

  // Appends kWatched entries for poll().
  static constexpr size_t kWatched = 2;
  void Watch(std::vector<pollfd>* ready) const;
  // When to call Move() without an event (MonotonicNs): at once if one turn was not enough; kNoDeadline: never.
  uint64_t again_ns() const;
  // Moves what can be moved, two records each way at most. `ready`: the entries of Watch() after poll(). Where none of them is
  // ready and again_ns() lies ahead there is nothing to move. False: the connection is over.
  bool Move(std::span<const pollfd> ready, uint64_t now_ns);

  // The alert with which the peer ended the connection (RFC 8446, 6); -1: none, or it goes on.
  int alert() const { return alert_; }

 private:
  // Each returns whether something was moved.
  bool Write();    // sealed_ to the network
  bool Deliver();  // opened_ to the process
  bool Hear();     // from the network to OpenSSL
  bool Open();     // from OpenSSL to opened_
  bool Seal();     // from the process through OpenSSL to sealed_
  void TakeSealed();
  bool hears() const;

  // What is left of bytes that are on their way.
  struct Rest {
    std::vector<std::byte> bytes;
    size_t begin = 0;
    bool empty() const { return begin == bytes.size(); }
  };
  static bool Send(int socket, Rest* rest, bool* broken);

  UniqueFd network_, plain_;
  std::shared_ptr<SSL> ssl_;
  std::vector<std::byte> room_;
  Rest sealed_, opened_, unsealed_;  // unsealed_: what OpenSSL could not take yet
  uint64_t records_ = 0;             // under these keys
  bool network_over_ = false;        // nothing more comes from it
  bool network_broken_ = false;      // nor goes there
  bool plain_over_ = false, plain_broken_ = false;
  bool said_plain_ = false, said_network_ = false;  // that nothing more comes from the other side
  bool more_ = false;
  uint64_t end_ns_ = 0;  // 0: it is not ending
  int alert_ = -1;
};

// The record with an alert (RFC 8446, 6) by which a side ends a connection right after the handshake. For alerts that OpenSSL
// cannot send.
std::vector<std::byte> SealedAlert(const TlsSession& session, uint8_t alert);
// The alert for a peer whose certificate is good but whose name may not connect.
std::vector<std::byte> SealedAccessDenied(const TlsSession& session);

}  // namespace tessera
