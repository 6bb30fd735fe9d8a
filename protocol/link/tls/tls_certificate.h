// What an X.509 certificate says: whom it is for, who signed it, and when it is valid.
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
  std::string issuer;              // the common name of the signer
  time_t begins = 0;               // it is valid from then
  time_t ends = 0;                 // until then
  bool authority = false;          // it may sign others
  bool for_servers = false;        // purposes that it has
  bool for_clients = false;
  std::string key_id;         // of its key, in hexadecimal digits; empty: not said
  std::string issuer_key_id;  // of the key that signed it
  std::string serial;         // hexadecimal digits
  std::string fingerprint;    // SHA-256 of the whole certificate, in hexadecimal digits

  // Its issuer for people: "'Tessera authority of a' (key 0f3a91c2d4e5b687)". The key tells authorities of the same name apart.
  std::string IssuerText() const { return AuthorityText(issuer, issuer_key_id); }
  // The same for a name and a key_id; without a key_id the name alone.
  static std::string AuthorityText(const std::string& name, const std::string& key_id);
};

CertificateDescription DescribeCertificate(X509& certificate);

// Reads a certificate from a file (PEM; the first counts). kNotFound, kPermissionDenied, kInvalidArgument: the file holds none.
Result<CertificateDescription> DescribeCertificateFile(const std::string& path);

// The same from a text. kInvalidArgument.
Result<CertificateDescription> DescribeCertificateText(const std::string& text);

// Whether a name in a certificate is an IP address, not the name of a host.
bool IsIpAddress(const std::string& name);

// "2026-11-22 04:30 UTC".
std::string DescribeTime(time_t time);

// A longer PEM file is not read.
inline constexpr size_t kPemBytesMax = size_t{1} << 20;

}  // namespace tessera
