// A peer that is OpenSSL alone: it shows whatever certificate it is given, looks at nobody else's, and knows nothing of links.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_keys.h"
#include "protocol/link/tls/tls_openssl.h"
#include "tests/support/tcp_pair.h"

namespace tessera {

class RawTlsPeer {
 public:
  // A client or a server on a connected socket; a pair without a certificate shows none. The handshake is not begun.
  RawTlsPeer(UniqueFd socket, bool server, const PemPair& shown, int version_max = TLS1_3_VERSION)
      : socket_(std::move(socket)), context_(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_.get(), version_max);
    SSL_CTX_set_num_tickets(context_.get(), 0);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });  // asks for it, takes any
    if (!shown.certificate.empty()) {
      const CertificatePtr certificate(PEM_read_bio_X509(ReadFrom(shown.certificate).get(), nullptr, nullptr, nullptr));
      const KeyPtr key(PEM_read_bio_PrivateKey(ReadFrom(shown.key).get(), nullptr, nullptr, nullptr));
      EXPECT_EQ(SSL_CTX_use_certificate(context_.get(), certificate.get()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key.get()), 1);
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_.get());
    server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }

  bool ShakeHands() {
    return Repeat([&] { return SSL_do_handshake(ssl_.get()); });
  }
  bool Send(std::string_view words) {
    return Repeat([&] { return SSL_write(ssl_.get(), words.data(), static_cast<int>(words.size())); });
  }
  // So many bytes, or fewer when it ends before.
  std::string Receive(size_t bytes) {
    std::string words;
    std::string some(bytes, '\0');
    while (words.size() < bytes &&
           Repeat([&] { return SSL_read(ssl_.get(), some.data(), static_cast<int>(bytes - words.size())); })) {
      words += some.substr(0, static_cast<size_t>(last_));
    }
    return words;
  }
  bool RequestNewKeys() { return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_REQUESTED) == 1 && ShakeHands(); }
  void SayGoodbye() { SSL_shutdown(ssl_.get()); }
  // As if a cable were cut: the connection ends, and TLS has said nothing.
  void Cut() { shutdown(socket_.get(), SHUT_RDWR); }

  // With which alert the peer ended it (RFC 8446, 6); -1: with none.
  int alert() const { return alert_; }
  int socket() const { return socket_.get(); }
  SSL* ssl() const { return ssl_.get(); }

 private:
  template <typename Step>
  bool Repeat(const Step& step) {
    for (;;) {
      ERR_clear_error();
      last_ = step();
      if (last_ > 0) return true;
      const int error = SSL_get_error(ssl_.get(), last_);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) break;
      pollfd ready = {socket_.get(), static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
      if (poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000)) != 1) break;
    }
    const int reason = ERR_GET_REASON(ERR_peek_error());
    if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) alert_ = reason - SSL_AD_REASON_OFFSET;
    return false;
  }

  UniqueFd socket_;
  ContextPtr context_;
  SslPtr ssl_;
  int last_ = 0;
  int alert_ = -1;
};

}  // namespace tessera
