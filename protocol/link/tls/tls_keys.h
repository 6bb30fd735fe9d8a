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
  std::vector<std::string> names;  // of subjectAltName: DNS names and IP addresses that a server is called by
  bool server = false;             // its purpose: to listen
  bool client = false;             // to connect
  time_t begins = 0;
  time_t ends = 0;
};

// An authority that signed itself. kInvalidArgument for a name that is empty or too long, kInternal when OpenSSL fails.
Result<PemPair> MakeAuthority(const std::string& name, time_t begins, time_t ends);

// A certificate of a new key, signed by `authority`. kInvalidArgument for names that cannot be, an authority that is none.
Result<PemPair> SignCertificate(const PemPair& authority, const CertificateRequest& request);

// A request (PKCS#10, in PEM form) for a certificate of this private key, for that name. kInvalidArgument: it is no key, or no
// name.
Result<std::string> MakeSigningRequest(const std::string& key, const std::string& name);

// The certificate of `request`, of the key in `signing_request`, of which nothing else counts. kInvalidArgument: that is no
// request in PEM form, is not signed by its own key, is of a weak key or for another name; and as of SignCertificate().
Result<std::string> SignRequest(const PemPair& authority, const CertificateRequest& request, const std::string& signing_request);

// What an authority's certificate says. kInvalidArgument: these are no authority's.
Result<CertificateDescription> DescribeAuthority(const PemPair& authority);

}  // namespace tessera
