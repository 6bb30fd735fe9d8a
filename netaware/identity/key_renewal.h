// Has a placer sign a new certificate for a client that shows one that expires soon, and replaces the old one's file.
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

// True if a certificate has at most a third of its life left, and has not expired.
bool IsToRenew(const CertificateDescription& certificate, time_t now);

// Renews the certificate that a client with `keys` reads (key_files.h). The key stays. ReplaceCertificate() replaces the file
// of the certificate as a whole, with mode 0600 and the same owner; `replace`, if given, is called in its place. Waits at most
// `wait_ns` for the connection, and as long for the answer. An error changes nothing. Errors: those of ReadKeyFiles() and
// ConnectRpc(); kInvalidArgument: not a tls:// address, or the placer refuses the request; kPermissionDenied,
// kResourceExhausted, kUnavailable: the placer's answer; kVersionMismatch: the placer does not know the call;
// kProtocolViolation: the new certificate cannot take the old one's place; else the file cannot be written.
Result<CertificateDescription> RenewCertificate(const std::string& url, const KeyFiles& keys, uint64_t wait_ns,
                                                const RpcMeans& means = {},
                                                const std::function<Status(const std::string& text)>& replace = {});

// The certificate that a client with `keys` shows. `open_file` as in RpcMeans. Errors: those of DescribeCertificateFile().
Result<CertificateDescription> DescribeOwnCertificate(
    const KeyFiles& keys, const std::function<Result<UniqueFd>(const std::string& path)>& open_file = {});

// Replaces the file of a certificate by `text`, completely or not at all. kInvalidArgument: `text` does not look like a
// certificate in PEM form; it is not parsed, since it may come from anybody. kPermissionDenied: the file cannot be written.
Status ReplaceCertificate(const std::string& path, const std::string& text);

}  // namespace tessera
