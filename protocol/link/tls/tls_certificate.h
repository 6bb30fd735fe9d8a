// What a certificate says: whom it is for, who signed it, from when until when. Of an X.509 certificate, whoever's it is.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

#include "protocol/base/status.h"

typedef struct x509_st X509;  // openssl/types.h

namespace tessera {

struct CertificateDescription {
  std::string name;                // the common name of its subject, else the first of `names`, else empty
  std::vector<std::string> names;  // DNS names and IP addresses of subjectAltName
  std::string issuer;              // the common name of who signed it
  time_t begins = 0;               // it counts from here
  time_t ends = 0;                 // until here
  bool authority = false;          // it may sign others
  bool for_servers = false;        // purposes that it has
  bool for_clients = false;
  std::string key_id;         // of its key, as hexadecimal digits; empty: it does not say
  std::string issuer_key_id;  // of the key that signed it
  std::string serial;         // hexadecimal digits
  std::string fingerprint;    // SHA-256 of the whole certificate, likewise

  // Its issuer for people: "'Tessera authority of a' (key 0f3a91c2d4e5b687)". Two authorities may have one name.
  std::string IssuerText() const { return AuthorityText(issuer, issuer_key_id); }
  // The same of a name and a key_id; of an empty one the name alone.
  static std::string AuthorityText(const std::string& name, const std::string& key_id);
};

CertificateDescription DescribeCertificate(X509& certificate);

// Of a file that holds a certificate (PEM; the first counts). kNotFound, kPermissionDenied, or kInvalidArgument for a file
// that holds none.
Result<CertificateDescription> DescribeCertificateFile(const std::string& path);

// The same of such a text. kInvalidArgument.
Result<CertificateDescription> DescribeCertificateText(const std::string& text);

// "2026-11-22 04:30 UTC".
std::string DescribeTime(time_t time);

// Most of a file in PEM form that is read.
inline constexpr size_t kPemBytesMax = size_t{1} << 20;

}  // namespace tessera
