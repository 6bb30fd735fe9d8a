// Has a placer sign a new certificate for whoever shows one that ends, and puts it into the file of that.
//
//   Result<CertificateDescription> now = RenewCertificate("tls://pool.example:4190", keys, 5'000'000'000);
//
// Any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

// Whether a certificate has a third of its life left, or less, and is not over.
bool IsToRenew(const CertificateDescription& certificate, time_t now);

// Of the files that a client with `keys` reads (key_files.h). The key stays; the file of the certificate is replaced as a whole,
// of mode 0600 and the owner of before: by ReplaceCertificate(), or `replace` in its place. Waits `wait_ns` at most for the
// connection, and as long for the answer. Errors, with nothing changed: as of ReadKeyFiles() and ConnectRpc(); kInvalidArgument:
// not a tls:// address; kPermissionDenied, kResourceExhausted, kUnavailable: what the placer says; kVersionMismatch: it does not
// know the question; kProtocolViolation: what it sends is not what was asked for; else the file cannot be written.
Result<CertificateDescription> RenewCertificate(const std::string& url, const KeyFiles& keys, uint64_t wait_ns,
                                                const RpcMeans& means = {},
                                                const std::function<Status(const std::string& text)>& replace = {});

// The certificate that a client with `keys` shows. `open_file` as in RpcMeans. Errors as of DescribeCertificateFile().
Result<CertificateDescription> DescribeOwnCertificate(
    const KeyFiles& keys, const std::function<Result<UniqueFd>(const std::string& path)>& open_file = {});

// Puts `text` in the place of the file of a certificate, the whole of it or nothing. kInvalidArgument: it is no certificate in
// PEM form, as far as can be seen without reading one: who has made it may be anybody. kPermissionDenied: it cannot be written.
Status ReplaceCertificate(const std::string& path, const std::string& text);

}  // namespace tessera
