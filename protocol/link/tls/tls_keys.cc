#include "protocol/link/tls/tls_keys.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>

#include "protocol/link/link_address.h"
#include "protocol/link/tls/tls_openssl.h"

namespace tessera {
namespace {

constexpr int kSerialBytes = 16;
constexpr long kX509v3 = 2;

Status Failed() { return Status(StatusCode::kInternal, "OpenSSL cannot make a certificate: " + OpensslWords()); }

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(memory, &data);
  return std::string(data, static_cast<size_t>(bytes));
}

bool Add(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool IsIpAddress(const std::string& name) {
  in6_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

// A name that a host may have; none that would mean something else to OpenSSL ("DNS:a,IP:b").
bool IsHostName(const std::string& name) {
  const auto fits = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '.' || letter == '_';
  };
  return !name.empty() && name.size() <= LinkAddress::kHostBytesMax && std::all_of(name.begin(), name.end(), fits);
}

Status CheckName(const std::string& name) {
  const auto odd = [](char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; };
  if (!name.empty() && name.size() <= CertificateRequest::kNameBytesMax && std::none_of(name.begin(), name.end(), odd))
    return Status::Ok();
  return Status(StatusCode::kInvalidArgument, "'" + name + "' is no name for a certificate: it has 1 to " +
                                                  std::to_string(CertificateRequest::kNameBytesMax) + " letters");
}

// "DNS:gpu7,IP:10.0.0.7"
Result<std::string> AlternativeNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const bool address = IsIpAddress(name);
    if (!address && !IsHostName(name)) {
      return Status(StatusCode::kInvalidArgument, "'" + name + "' is neither the name of a host nor an IP address: correct it");
    }
    text += std::string(text.empty() ? "" : ",") + (address ? "IP:" : "DNS:") + name;
  }
  return text;
}

// A certificate with everything but its extensions and signature.
CertificatePtr Begin(const std::string& name, EVP_PKEY* key, X509_NAME* issuer, time_t begins, time_t ends) {
  CertificatePtr certificate(X509_new());
  unsigned char serial[kSerialBytes];
  if (certificate == nullptr || RAND_bytes(serial, sizeof(serial)) != 1) return nullptr;
  serial[0] = (serial[0] & 0x7f) | 0x40;  // positive, and of this length
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  const bool made =
      X509_set_version(certificate.get(), kX509v3) == 1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()), -1,
                                 0) == 1 &&
      X509_set_issuer_name(certificate.get(), issuer != nullptr ? issuer : X509_get_subject_name(certificate.get())) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), begins) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), ends) != nullptr && X509_set_pubkey(certificate.get(), key) == 1;
  return made ? std::move(certificate) : nullptr;
}

Result<PemPair> Sign(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  const BioPtr certificate_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, signer, EVP_sha256()) == 0 || PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed();
  }
  return PemPair{TextOf(certificate_text.get()), TextOf(key_text.get())};
}

}  // namespace

Result<PemPair> MakeAuthority(const std::string& name, time_t begins, time_t ends) {
  RETURN_IF_ERROR(CheckName(name));
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed();
  const CertificatePtr certificate = Begin(name, key.get(), nullptr, begins, ends);
  X509* made = certificate.get();
  if (made == nullptr || !Add(made, made, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !Add(made, made, NID_key_usage, "critical,keyCertSign,cRLSign") || !Add(made, made, NID_subject_key_identifier, "hash")) {
    return Failed();
  }
  return Sign(made, key.get(), key.get());
}

Result<PemPair> SignCertificate(const PemPair& authority, const CertificateRequest& request) {
  RETURN_IF_ERROR(CheckName(request.name));
  Result<std::string> names = AlternativeNames(request.names);
  if (!names.ok()) return names.status();
  const CertificatePtr issuer(PEM_read_bio_X509(ReadFrom(authority.certificate).get(), nullptr, nullptr, nullptr));
  const KeyPtr issuer_key(PEM_read_bio_PrivateKey(ReadFrom(authority.key).get(), nullptr, nullptr, nullptr));
  if (issuer == nullptr || issuer_key == nullptr || X509_check_private_key(issuer.get(), issuer_key.get()) != 1 ||
      X509_check_ca(issuer.get()) != 1) {
    OpensslWords();
    return Status(StatusCode::kInvalidArgument,
                  "these files are no authority's: make one with 'tessera keys authority DIRECTORY'");
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed();
  const CertificatePtr certificate =
      Begin(request.name, key.get(), X509_get_subject_name(issuer.get()), request.begins, request.ends);
  X509* made = certificate.get();
  const std::string purposes = request.server && request.client ? "serverAuth,clientAuth"
                               : request.server                 ? "serverAuth"
                                                                : "clientAuth";
  if (made == nullptr || !Add(made, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !Add(made, issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !Add(made, issuer.get(), NID_ext_key_usage, purposes) || !Add(made, issuer.get(), NID_subject_key_identifier, "hash") ||
      !Add(made, issuer.get(), NID_authority_key_identifier, "keyid") ||
      (!names->empty() && !Add(made, issuer.get(), NID_subject_alt_name, *names))) {
    return Failed();
  }
  return Sign(made, key.get(), issuer_key.get());
}

}  // namespace tessera
