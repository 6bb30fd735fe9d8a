#include "protocol/link/tls/tls_keys.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_openssl.h"

namespace tessera {
namespace {

constexpr int kSerialBytes = 16;
constexpr long kX509v3 = 2;
constexpr int kSecurityBits = 112;  // RSA of 2,048 bits

using RequestPtr = std::unique_ptr<X509_REQ, OpensslFree<X509_REQ_free>>;

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

Result<std::string> Sign(X509* certificate, EVP_PKEY* signer) {
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, signer, EVP_sha256()) == 0 || PEM_write_bio_X509(text.get(), certificate) != 1) return Failed();
  return TextOf(text.get());
}

Result<PemPair> WithKey(Result<std::string> certificate, EVP_PKEY* key) {
  if (!certificate.ok()) return certificate.status();
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) return Failed();
  return PemPair{std::move(*certificate), TextOf(text.get())};
}

struct Authority {
  CertificatePtr certificate;
  KeyPtr key;
};

Result<Authority> ReadAuthority(const PemPair& pair) {
  Authority authority{CertificatePtr(PEM_read_bio_X509(ReadFrom(pair.certificate).get(), nullptr, nullptr, nullptr)),
                      KeyPtr(PEM_read_bio_PrivateKey(ReadFrom(pair.key).get(), nullptr, nullptr, nullptr))};
  if (authority.certificate != nullptr && authority.key != nullptr &&
      X509_check_private_key(authority.certificate.get(), authority.key.get()) == 1 &&
      X509_check_ca(authority.certificate.get()) == 1) {
    return authority;
  }
  OpensslWords();
  return Status(StatusCode::kInvalidArgument, "these files are no authority's: make one with 'tessera keys authority DIRECTORY'");
}

// A certificate of `key`.
Result<std::string> Certify(const PemPair& pair, const CertificateRequest& request, EVP_PKEY* key) {
  RETURN_IF_ERROR(CheckName(request.name));
  Result<std::string> names = AlternativeNames(request.names);
  if (!names.ok()) return names.status();
  Result<Authority> authority = ReadAuthority(pair);
  if (!authority.ok()) return authority.status();
  X509* const issuer = authority->certificate.get();
  const CertificatePtr certificate = Begin(request.name, key, X509_get_subject_name(issuer), request.begins, request.ends);
  X509* made = certificate.get();
  const std::string purposes = request.server && request.client ? "serverAuth,clientAuth"
                               : request.server                 ? "serverAuth"
                                                                : "clientAuth";
  if (made == nullptr || !Add(made, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !Add(made, issuer, NID_key_usage, "critical,digitalSignature") || !Add(made, issuer, NID_ext_key_usage, purposes) ||
      !Add(made, issuer, NID_subject_key_identifier, "hash") || !Add(made, issuer, NID_authority_key_identifier, "keyid") ||
      (!names->empty() && !Add(made, issuer, NID_subject_alt_name, *names))) {
    return Failed();
  }
  return Sign(made, authority->key.get());
}

// The common name of a request; empty: it has none.
std::string NameOf(const X509_REQ& request) {
  const X509_NAME* const subject = X509_REQ_get_subject_name(&request);
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(subject), NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* utf8 = nullptr;
  const int bytes = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (bytes < 0) return "?";
  std::string name(reinterpret_cast<const char*>(utf8), static_cast<size_t>(bytes));
  OPENSSL_free(utf8);
  return name;
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
  return WithKey(Sign(made, key.get()), key.get());
}

Result<PemPair> SignCertificate(const PemPair& authority, const CertificateRequest& request) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  return key == nullptr ? Failed() : WithKey(Certify(authority, request, key.get()), key.get());
}

Result<std::string> MakeSigningRequest(const std::string& key_text, const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  const KeyPtr key(PEM_read_bio_PrivateKey(ReadFrom(key_text).get(), nullptr, nullptr, nullptr));
  const RequestPtr request(X509_REQ_new());
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (key == nullptr) {
    OpensslWords();
    return Status(StatusCode::kInvalidArgument, "this is no private key in PEM form");
  }
  // Of Ed25519 the digest is its own.
  const EVP_MD* const digest = EVP_PKEY_get_id(key.get()) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  if (request == nullptr || X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()), -1,
                                 0) != 1 ||
      X509_REQ_sign(request.get(), key.get(), digest) == 0 || PEM_write_bio_X509_REQ(text.get(), request.get()) != 1) {
    return Failed();
  }
  return TextOf(text.get());
}

Result<std::string> SignRequest(const PemPair& authority, const CertificateRequest& request, const std::string& signing_request) {
  const auto wrong = [](const std::string& why) {
    OpensslWords();
    return Status(StatusCode::kInvalidArgument, "the request for a certificate " + why);
  };
  const RequestPtr asked(PEM_read_bio_X509_REQ(ReadFrom(signing_request).get(), nullptr, nullptr, nullptr));
  if (asked == nullptr) return wrong("is none in PEM form (PKCS#10)");
  EVP_PKEY* const key = X509_REQ_get0_pubkey(asked.get());
  if (key == nullptr || X509_REQ_verify(asked.get(), key) != 1) return wrong("is not signed by its own key");
  if (EVP_PKEY_get_security_bits(key) < kSecurityBits) return wrong("is of a weak key: make one with 'tessera keys'");
  if (const std::string name = NameOf(*asked); !name.empty() && name != request.name)
    return wrong("is for '" + Printable(name) + "', and not for '" + Printable(request.name) + "', whose certificate was shown");
  return Certify(authority, request, key);
}

Result<CertificateDescription> DescribeAuthority(const PemPair& authority) {
  Result<Authority> read = ReadAuthority(authority);
  if (!read.ok()) return read.status();
  return DescribeCertificate(*read->certificate);
}

}  // namespace tessera
