// Who this side is and whom it trusts: certificate, key and authority from files (key_files.h), ready for handshakes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/key_files.h"
#include "protocol/link/tls/tls_certificate.h"

typedef struct ssl_ctx_st SSL_CTX;  // openssl/types.h

namespace tessera {

class TlsIdentity {
 public:
  // Reads the files. `protocol`: what is spoken inside, for ALPN: a server refuses a peer that offers only others; empty:
  // anything. kPermissionDenied with what to do: a file is missing or cannot be read, others may read the key or change the
  // authority, the files do not belong together, or the certificate has expired. Any thread.
  static Result<std::shared_ptr<const TlsIdentity>> Load(TlsRole role, const LinkOptions& options,
                                                         std::string_view protocol = {});
  // The same from texts that were read already; `files` is for messages.
  static Result<std::shared_ptr<const TlsIdentity>> Make(TlsRole role, const KeyFiles& files, const KeyTexts& texts,
                                                         std::string_view protocol = {});
  ~TlsIdentity();

  TlsRole role() const { return role_; }
  const KeyFiles& files() const { return files_; }
  const CertificateDescription& own() const { return own_; }
  // The first trusted authorities, for messages: "'A' (key 0f3a91c2d4e5b687), 'B' (key ...)".
  const std::string& authorities() const { return authorities_; }
  // Whether a peer with this certificate may connect. The authority has signed it. One without a name that a holder can have
  // (protocol/wire/holder.h) may not.
  bool Allows(const CertificateDescription& peer) const;
  // For SSL_new(); any thread.
  SSL_CTX* context() const { return context_; }

 private:
  TlsIdentity(TlsRole role, KeyFiles files) : role_(role), files_(std::move(files)) {}
  Status Use(const KeyTexts& texts);
  Status Speak(std::string_view protocol);

  const TlsRole role_;
  const KeyFiles files_;
  CertificateDescription own_;
  std::string authorities_;
  std::string protocol_;  // empty: whatever is spoken
  bool restricted_ = false;
  std::vector<std::string> allowed_;
  SSL_CTX* context_ = nullptr;
};

// The identity of a side that listens. It reads its files again when they have changed. If they cannot be used, perhaps because
// they are just being replaced, it keeps the old identity and logs a line.
class TlsIdentityKeeper {
 public:
  // `protocol` as of TlsIdentity::Load().
  static Result<std::unique_ptr<TlsIdentityKeeper>> Make(TlsRole role, const LinkOptions& options,
                                                         std::string_view protocol = {});
  // For the next connection. Any thread.
  std::shared_ptr<const TlsIdentity> Current() EXCLUDES(mutex_);

 private:
  using Stamps = std::vector<std::string>;  // of each file: a text that changes with the file
  TlsIdentityKeeper(TlsRole role, const LinkOptions& options, std::string_view protocol);
  Stamps TakeStamps() const;

  const TlsRole role_;
  const LinkOptions options_;
  const std::string protocol_;
  const std::vector<std::string> paths_;
  Mutex mutex_;
  uint64_t looked_ns_ GUARDED_BY(mutex_) = 0;  // when the last look at the files began
  Stamps stamps_ GUARDED_BY(mutex_);
  std::shared_ptr<const TlsIdentity> identity_ GUARDED_BY(mutex_);
};

}  // namespace tessera
