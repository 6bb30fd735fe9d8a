// The files that say who a side of tls:// is, and whom it believes, as text: what of it needs no OpenSSL.
//
// A file that is not named is where the environment says (TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY), else
// certificate.pem, key.pem and authority.pem in $XDG_CONFIG_HOME/tessera (~/.config/tessera); of a server that root runs, in
// /etc/tessera. Any thread.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"

namespace tessera {

enum class TlsRole { kClient, kServer };

// What stands in them. The key is wiped at the end.
struct KeyTexts {
  KeyTexts() = default;
  KeyTexts(KeyTexts&&) = default;
  KeyTexts& operator=(KeyTexts&&) = default;
  ~KeyTexts();

  std::string certificate, key, authority;
  bool restricted = false;           // `allowed` alone may connect, not whoever the authority signed
  std::vector<std::string> allowed;  // names in certificates
};

// `files` with what is empty filled in as above.
KeyFiles LocateKeyFiles(TlsRole role, const KeyFiles& files);
// All files that a side reads; "" for one that it does without.
std::vector<std::string> FilesOf(TlsRole role, const LinkOptions& options);
// Reads `files`, which were located, and the names of `options`. kPermissionDenied with what to do: one is missing or cannot be
// read, others may read the key or change the authority.
Result<KeyTexts> ReadKeyFiles(TlsRole role, const KeyFiles& files, const LinkOptions& options);
// What is known of a file of `options`; false when it cannot be opened or found.
bool LookAtKeyFile(const LinkOptions& options, const std::string& path, struct stat* state);
// "'tessera keys server NAME'", for sentences: what makes a certificate of that role.
const char* KeysCommand(TlsRole role);

}  // namespace tessera
