#include "protocol/link/tls/tls_certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <climits>
#include <span>

#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/link/tls/tls_openssl.h"

namespace tessera {
namespace {

std::string Text(const ASN1_STRING* string) {
  unsigned char* utf8 = nullptr;
  const int bytes = string == nullptr ? -1 : ASN1_STRING_to_UTF8(&utf8, string);
  if (bytes < 0) return "";
  std::string text(reinterpret_cast<const char*>(utf8), static_cast<size_t>(bytes));
  OPENSSL_free(utf8);
  return text;
}

std::string CommonName(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(name), NID_commonName, -1);
  return at < 0 ? "" : Text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::string IpText(const ASN1_OCTET_STRING* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const int bytes = ASN1_STRING_length(address);
  if (bytes == 4 || bytes == 16) inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof(text));
  return text;
}

std::vector<std::string> AlternativeNames(X509& certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type == GEN_DNS) names.push_back(Text(name->d.dNSName));
    if (name->type == GEN_IPADD) names.push_back(IpText(name->d.iPAddress));
  }
  GENERAL_NAMES_free(list);
  return names;
}

std::string HexOf(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

std::string HexOf(const ASN1_STRING* bytes) {
  if (bytes == nullptr) return "";
  return HexOf(std::span(ASN1_STRING_get0_data(bytes), static_cast<size_t>(ASN1_STRING_length(bytes))));
}

time_t TimeOf(const ASN1_TIME* time) {
  tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

}  // namespace

BioPtr ReadFrom(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX))));
}

std::string OpensslWords() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : reason;
}

CertificateDescription DescribeCertificate(X509& certificate) {
  CertificateDescription description;
  description.names = AlternativeNames(certificate);
  description.name = CommonName(X509_get_subject_name(&certificate));
  if (description.name.empty() && !description.names.empty()) description.name = description.names.front();
  description.issuer = CommonName(X509_get_issuer_name(&certificate));
  description.begins = TimeOf(X509_get0_notBefore(&certificate));
  description.ends = TimeOf(X509_get0_notAfter(&certificate));
  description.authority = X509_check_ca(&certificate) == 1;
  description.for_servers = X509_check_purpose(&certificate, X509_PURPOSE_SSL_SERVER, 0) == 1;
  description.for_clients = X509_check_purpose(&certificate, X509_PURPOSE_SSL_CLIENT, 0) == 1;
  description.key_id = HexOf(X509_get0_subject_key_id(&certificate));
  description.issuer_key_id = HexOf(X509_get0_authority_key_id(&certificate));
  description.serial = HexOf(X509_get0_serialNumber(&certificate));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  if (X509_digest(&certificate, EVP_sha256(), digest, &bytes) == 1) description.fingerprint = HexOf(std::span(digest, bytes));
  return description;
}

std::string CertificateDescription::AuthorityText(const std::string& name, const std::string& key_id) {
  constexpr size_t kShownMax = 16;  // digits: enough for eyes to tell keys apart
  const std::string key = key_id.empty() ? "" : " (key " + Printable(key_id.substr(0, kShownMax)) + ")";
  return "'" + Printable(name) + "'" + key;
}

Result<CertificateDescription> DescribeCertificateFile(const std::string& path) {
  Result<std::string> text = ReadSmallFile(path, kPemBytesMax);
  if (!text.ok()) return text.status();
  Result<CertificateDescription> description = DescribeCertificateText(*text);
  if (description.ok()) return description;
  return Status(StatusCode::kInvalidArgument, path + " holds no certificate in PEM form: give another file");
}

Result<CertificateDescription> DescribeCertificateText(const std::string& text) {
  const CertificatePtr certificate(PEM_read_bio_X509(ReadFrom(text).get(), nullptr, nullptr, nullptr));
  if (certificate != nullptr) return DescribeCertificate(*certificate);
  OpensslWords();
  return Status(StatusCode::kInvalidArgument, "this is no certificate in PEM form");
}

bool IsIpAddress(const std::string& name) {
  in6_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

std::string DescribeTime(time_t time) {
  tm parts{};
  char text[32];
  gmtime_r(&time, &parts);
  strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

}  // namespace tessera
