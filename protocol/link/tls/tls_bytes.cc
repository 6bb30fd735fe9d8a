#include "protocol/link/tls/tls_bytes.h"

#include <openssl/ssl.h>

#include <string>

#include "protocol/link/tcp/tcp_stream.h"

namespace tessera {

Status TlsBytes::EndedByAlert(int alert) {
  if (alert == SSL_AD_CLOSE_NOTIFY) return LinkClosed();
  const char* words = SSL_alert_desc_string_long(alert);
  return Status(StatusCode::kUnavailable,
                "the other side ended the link (TLS alert " + std::to_string(alert) + ", " + words + "): look into its log");
}

Status TlsBytes::CutOff() {
  return Status(StatusCode::kUnavailable, "the connection was cut: it ended without the other side's goodbye");
}

}  // namespace tessera
