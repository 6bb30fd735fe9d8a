#include "protocol/link/tls/tls_observed.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string_view>

namespace tessera {
namespace {

TlsObserved& Of(const SSL* ssl) { return *static_cast<TlsObserved*>(SSL_get_app_data(const_cast<SSL*>(ssl))); }

// The bytes of a secret in a line of the key log ("LABEL RANDOM SECRET"), when it has that label.
void TakeSecret(std::string_view line, std::string_view label, TlsSecret* secret, bool* known) {
  if (!line.starts_with(label) || line.size() < label.size() + 2 * TlsSecret::kBytes) return;
  const std::string_view hex = line.substr(line.size() - 2 * TlsSecret::kBytes);
  const auto digit = [](char letter) { return letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10; };
  for (size_t i = 0; i < TlsSecret::kBytes; ++i)
    secret->bytes[i] = static_cast<uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  *known = true;
}

void KeyLog(const SSL* ssl, const char* line) {
  if (SSL_get_app_data(const_cast<SSL*>(ssl)) == nullptr) return;
  TlsObserved& observed = Of(ssl);
  TakeSecret(line, "CLIENT_TRAFFIC_SECRET_0 ", &observed.client, &observed.client_known);
  TakeSecret(line, "SERVER_TRAFFIC_SECRET_0 ", &observed.server, &observed.server_known);
}

int Verify(int passed, X509_STORE_CTX* context) {
  if (passed == 1) return 1;
  TlsObserved& observed = Of(static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx())));
  observed.refused = X509_STORE_CTX_get_error(context);
  if (X509* failed = X509_STORE_CTX_get_current_cert(context)) observed.failed = DescribeCertificate(*failed);
  if (X509* leaf = X509_STORE_CTX_get0_cert(context)) observed.leaf = DescribeCertificate(*leaf);
  return 0;
}

}  // namespace

void TlsObserved::Prepare(SSL_CTX* context) {
  SSL_CTX_set_keylog_callback(context, KeyLog);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, Verify);
}

void TlsObserved::Watch(SSL* ssl) { SSL_set_app_data(ssl, this); }

void TlsObserved::Leave(SSL* ssl) { SSL_set_app_data(ssl, nullptr); }

}  // namespace tessera
