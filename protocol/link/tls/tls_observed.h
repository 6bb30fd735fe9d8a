// Collects what OpenSSL tells during one handshake: the secrets that it hands out for key logs, and why a certificate was
// refused. The thread of the handshake.
#pragma once

#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_records.h"

typedef struct ssl_st SSL;          // openssl/types.h
typedef struct ssl_ctx_st SSL_CTX;  // likewise

namespace tessera {

struct TlsObserved {
  // Call it once for each context. Its handshakes then demand the peer's certificate, and each needs Watch().
  static void Prepare(SSL_CTX* context);
  // From now on `ssl` tells this object, which outlives it.
  void Watch(SSL* ssl);
  // The handshake of `ssl` is over: it tells nobody from now on.
  static void Leave(SSL* ssl);

  TlsSecret client, server;
  bool client_known = false, server_known = false;
  int refused = 0;  // X509_V_ERR_*, or X509_V_OK
  CertificateDescription failed, leaf;
};

}  // namespace tessera
