// A TLS connection whose handshake is over, as a pipe between its socket and one of this process: what speaks a protocol of its
// own over descriptors (gRPC) does so under TLS. In OpenSSL's records.
//
//   TlsPipe pipe(std::move(network), std::move(plain), session);       // both non-blocking stream sockets
//   pipe.Watch(&ready); poll(..., at most until pipe.again_ns());
//   if (!pipe.Move(two of ready, MonotonicNs())) ...                   // it is over; the sockets go with it
//
// Each direction has room for a record and a half, and takes nothing before what it has is gone: who does not read is not
// written for. One thread at a time; nothing waits.
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
  // How long this side waits, at the end, for the other to take what was sent.
  static constexpr uint64_t kEndNs = 2'000'000'000;

  // The SSL object of `session` is this one's from now on.
  TlsPipe(UniqueFd network, UniqueFd plain, const TlsSession& session);
  TlsPipe(TlsPipe&&) = default;
  TlsPipe& operator=(TlsPipe&&) = default;

  // Appends kWatched entries for poll().
  static constexpr size_t kWatched = 2;
  void Watch(std::vector<pollfd>* ready) const;
  // When Move() has something to do by itself (MonotonicNs): at once while there is more than it moves in one turn; kNoDeadline.
  uint64_t again_ns() const;
  // Moves what can be moved, for a while. `ready`: what poll() said of the entries of Watch(). False: it is over.
  bool Move(std::span<const pollfd> ready, uint64_t now_ns);

  // With which alert the peer ended it (RFC 8446, 6); -1: with none, or it goes on.
  int alert() const { return alert_; }

 private:
  // Each: whether something was moved.
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

// The record with which a side that has shaken hands, and has sent nothing since, ends it: `alert` is one of RFC 8446, 6. For
// what OpenSSL has no way to say.
std::vector<std::byte> SealedAlert(const TlsSession& session, uint8_t alert);
// The alert by which a peer whose certificate is good hears that its name may not connect.
std::vector<std::byte> SealedAccessDenied(const TlsSession& session);

}  // namespace tessera
