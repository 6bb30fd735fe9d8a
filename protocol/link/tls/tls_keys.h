// Makes authorities, and the certificates that they sign: text in PEM form. Keys are EC P-256, signatures ECDSA with SHA-256.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "protocol/base/status.h"

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

}  // namespace tessera
