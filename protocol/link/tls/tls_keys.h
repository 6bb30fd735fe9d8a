// Makes authorities, and the certificates that they sign: text in PEM form. Keys are EC P-256, signatures ECDSA with SHA-256.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/tls/tls_certificate.h"

namespace tessera {

// A certificate and its private key, each in PEM form.
struct PemPair {
  std::string certificate;
  std::string key;
};

struct CertificateRequest {
  static constexpr size_t kNameBytesMax = 64;  // of a common name (RFC 5280, A.1: ub-common-name)

  std::string name;                // the common name
  std::vector<std::string> names;  // of subjectAltName: a server's DNS names and IP addresses
  bool server = false;             // it may listen
  bool client = false;             // it may connect
  time_t begins = 0;
  time_t ends = 0;
};

// Makes an authority that signs itself. kInvalidArgument: the name is empty or too long. kInternal: OpenSSL failed.
Result<PemPair> MakeAuthority(const std::string& name, time_t begins, time_t ends);

// Makes a key and its certificate, signed by `authority`. kInvalidArgument: a name is impossible, or `authority` is none.
Result<PemPair> SignCertificate(const PemPair& authority, const CertificateRequest& request);

// Makes a request (PKCS#10, in PEM form) for a certificate of this private key and name. kInvalidArgument: the key or the name is
// none.
Result<std::string> MakeSigningRequest(const std::string& key, const std::string& name);

// Signs the certificate that `request` describes. Only the key of `signing_request` counts. kInvalidArgument: `signing_request`
// is no request in PEM form, is not signed by its own key, has a weak key or another name; and as SignCertificate().
Result<std::string> SignRequest(const PemPair& authority, const CertificateRequest& request, const std::string& signing_request);

// What an authority's certificate says. kInvalidArgument: it is no authority's certificate and key.
Result<CertificateDescription> DescribeAuthority(const PemPair& authority);

}  // namespace tessera
