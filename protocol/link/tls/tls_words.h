// Messages for failures of TLS between two hosts: what happened, to which certificate, what to do.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tls/tls_identity.h"

namespace tessera {

// One connection, for messages about it.
struct TlsParties {
  const TlsIdentity& us;
  // Of a client: whom it wanted to reach. Of a server: null.
  const LinkAddress* address = nullptr;
  // What listens there, and its program.
  const char* what = "gateway";
  const char* program = "tessera-gateway";

  bool client() const { return address != nullptr; }
  // "the gateway at tls://gpu7:4180", "the peer".
  std::string Peer() const;
};

// kPermissionDenied: the peer's certificate `leaf`, or an authority above it, was refused. `error`: an X509_V_ERR_*. `failed`:
// the certificate that was refused.
Status DescribeRefusedCertificate(const TlsParties& parties, int error, const CertificateDescription& failed,
                                  const CertificateDescription& leaf);

// kPermissionDenied: the peer's certificate is good, but its name may not connect here.
Status DescribeNotAllowed(const CertificateDescription& peer);

// The peer ended the handshake with an alert, a number of RFC 8446, 6. kPermissionDenied: it does not accept our certificate.
Status DescribeAlert(const TlsParties& parties, int alert);

// The handshake failed for OpenSSL's reason (ERR_GET_REASON). kProtocolViolation, or the error of an alert.
Status DescribeFailedHandshake(const TlsParties& parties, int reason);

}  // namespace tessera
