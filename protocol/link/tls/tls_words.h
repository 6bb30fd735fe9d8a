// What there is to say when two hosts cannot come together over TLS: what happened, to which certificate, what to do.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tls/tls_identity.h"

namespace tessera {

// One connection, for sentences about it.
struct TlsParties {
  const TlsIdentity& us;
  // Of a client: whom it wanted to reach. Of a server: null.
  const LinkAddress* address = nullptr;
  // What listens there, and the program that does.
  const char* what = "gateway";
  const char* program = "tessera-gateway";

  bool client() const { return address != nullptr; }
  // "the gateway at tls://gpu7:4180", "the peer".
  std::string Peer() const;
};

// The peer's certificate, or one of an authority above it, did not pass: `error` is an X509_V_ERR_*, `failed` is the one that
// failed, `leaf` the peer's own. kPermissionDenied.
Status DescribeRefusedCertificate(const TlsParties& parties, int error, const CertificateDescription& failed,
                                  const CertificateDescription& leaf);

// The peer has a certificate that is good, of a name that may not connect here. kPermissionDenied.
Status DescribeNotAllowed(const CertificateDescription& peer);

// The peer ended it with an alert, a number of RFC 8446, 6. kPermissionDenied when it does not accept our certificate.
Status DescribeAlert(const TlsParties& parties, int alert);

// The handshake failed for the reason that OpenSSL gives (ERR_GET_REASON). kProtocolViolation, or of an alert.
Status DescribeFailedHandshake(const TlsParties& parties, int reason);

}  // namespace tessera
