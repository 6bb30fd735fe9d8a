// Reads the files that say who a side of tls:// is and whom it trusts. They stay text here, so this needs no OpenSSL.
//
// The environment names files that the user does not (TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY). Without it they are
// certificate.pem, key.pem and authority.pem in $XDG_CONFIG_HOME/tessera (~/.config/tessera), or in /etc/tessera for a server
// that root runs. Any thread.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"

namespace tessera {

enum class TlsRole { kClient, kServer };

// The contents of the files. The destructor wipes the key.
struct KeyTexts {
  KeyTexts() = default;
  KeyTexts(KeyTexts&&) = default;
  KeyTexts& operator=(KeyTexts&&) = default;
  ~KeyTexts();

  std::string certificate, key, authority;
  bool restricted = false;           // only `allowed` may connect, not everybody whom the authority signed
  std::vector<std::string> allowed;  // names in certificates
};

// `files` with empty names filled in as above.
KeyFiles LocateKeyFiles(TlsRole role, const KeyFiles& files);
// All files that a side reads; "" for one that it does not need.
std::vector<std::string> FilesOf(TlsRole role, const LinkOptions& options);
// Reads `files`, whose names are all filled in, and the names of `options`. kPermissionDenied with what to do: a file is missing
// or cannot be read, or others may read the key or change the authority.
Result<KeyTexts> ReadKeyFiles(TlsRole role, const KeyFiles& files, const LinkOptions& options);
// stat(2) of a file of `options`; false when it cannot be opened or found.
bool LookAtKeyFile(const LinkOptions& options, const std::string& path, struct stat* state);
// The command that makes a certificate of that role, for messages: "'tessera keys server NAME'".
const char* KeysCommand(TlsRole role);

}  // namespace tessera
