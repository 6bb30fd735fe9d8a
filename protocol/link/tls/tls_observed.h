// What OpenSSL tells during one handshake: the secrets that it hands out for key logs, and why a certificate did not pass.
// One thread, that of the handshake.
#pragma once

#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_records.h"

typedef struct ssl_st SSL;          // openssl/types.h
typedef struct ssl_ctx_st SSL_CTX;  // likewise

namespace tessera {

struct TlsObserved {
  // Once for each context: its handshakes tell, and want a certificate of the peer. Each of them is to be watched.
  static void Prepare(SSL_CTX* context);
  // From now on `ssl` tells this, which outlives it.
  void Watch(SSL* ssl);
  // From now on `ssl`, whose handshake is over, tells nobody.
  static void Leave(SSL* ssl);

  TlsSecret client, server;
  bool client_known = false, server_known = false;
  int refused = 0;  // X509_V_ERR_*, or X509_V_OK
  CertificateDescription failed, leaf;
};

}  // namespace tessera
