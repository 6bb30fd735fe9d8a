// A peer that is OpenSSL alone and has no socket: what it says is bytes in memory, for a stream to receive cut, changed or whole.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/link/tls/tls_handshake.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {

class MemoryTlsPeer {
 public:
  // `server`: the peer is one, and sends so many tickets. Shakes hands with this side.
  explicit MemoryTlsPeer(const TestAuthority& authority, bool server, size_t tickets = 0)
      : MemoryTlsPeer(
            *TlsIdentity::Load(server ? TlsRole::kClient : TlsRole::kServer, server ? authority.Client() : authority.Server())
                 .value(),
            SignCertificate(authority.pair(), TestAuthority::RequestOf("them", server)).value(), tickets) {}
  // The same with what was made before. The peer is what `us` is not.
  MemoryTlsPeer(const TlsIdentity& us, const PemPair& shown, size_t tickets)
      : peer_(UniqueFd(), us.role() == TlsRole::kClient, shown) {
    SSL_set_bio(ssl(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_num_tickets(ssl(), tickets);
    const LinkAddress address = {"localhost", 1, LinkScheme::kTls};
    TlsHandshake handshake({us, us.role() == TlsRole::kClient ? &address : nullptr});
    EXPECT_TRUE(handshake.Take({}).ok());
    for (int flight = 0; flight < 4; ++flight) {
      Hear(handshake.Outgoing());
      (void)SSL_do_handshake(ssl());
      const std::vector<std::byte> said = Said();
      if (handshake.done()) {
        session_.received.insert(session_.received.end(), said.begin(), said.end());
      } else if (!said.empty()) {
        EXPECT_TRUE(handshake.Take(said).ok());
        if (handshake.done()) session_ = handshake.Finish();
      }
    }
    EXPECT_TRUE(SSL_is_init_finished(ssl()) == 1 && handshake.done());
  }

  SSL* ssl() { return peer_.ssl(); }
  // What the handshake left this side; the records that already followed it are in it.
  const TlsSession& session() const { return session_; }
  // The records of these words.
  std::vector<std::byte> Say(std::string_view words) {
    EXPECT_EQ(SSL_write(ssl(), words.data(), static_cast<int>(words.size())), static_cast<int>(words.size()));
    return Said();
  }
  // What it has said since.
  std::vector<std::byte> Said() {
    std::vector<std::byte> bytes(BIO_ctrl_pending(SSL_get_wbio(ssl())));
    if (!bytes.empty()) BIO_read(SSL_get_wbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  void Hear(std::span<const std::byte> bytes) {
    if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
  }
  // What it makes of what it heard, as far as it goes.
  std::string Heard() {
    std::string words, some(kTlsPlainBytesMax, '\0');
    for (int got = 0; (got = SSL_read(ssl(), some.data(), static_cast<int>(some.size()))) > 0;)
      words.append(some.data(), static_cast<size_t>(got));
    return words;
  }

 private:
  RawTlsPeer peer_;
  TlsSession session_;
};

}  // namespace tessera
