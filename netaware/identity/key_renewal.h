// Has a placer sign a new certificate for whoever shows one that ends, and puts it into the file of that.
//
//   Result<CertificateDescription> now = RenewCertificate("tls://pool.example:4190", keys, 5'000'000'000);
//
// Any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_certificate.h"

namespace tessera {

// Whether a certificate has a third of its life left, or less, and is not over.
bool IsToRenew(const CertificateDescription& certificate, time_t now);

// Of the files that a client with `keys` reads (key_files.h). The key stays; the file of the certificate is replaced as a whole,
// of mode 0600 and the owner of before. Waits `wait_ns` at most for the connection, and as long for the answer. Errors, with
// nothing changed: as of ReadKeyFiles() and ConnectRpc(); kInvalidArgument: not a tls:// address; kPermissionDenied,
// kResourceExhausted, kUnavailable: what the placer says; kVersionMismatch: it does not know the question; kProtocolViolation:
// what it sends is not what was asked for; else the file cannot be written.
Result<CertificateDescription> RenewCertificate(const std::string& url, const KeyFiles& keys, uint64_t wait_ns);

}  // namespace tessera
