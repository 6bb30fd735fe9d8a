#include "server/daemon/control_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "protocol/link/tls/key_files.h"

namespace tessera {

Result<HandedKeys> ReadControlKeys(const LinkOptions& options, uint64_t revision) {
  const KeyFiles files = LocateKeyFiles(TlsRole::kServer, options.keys);
  Result<KeyTexts> texts = ReadKeyFiles(TlsRole::kServer, files, options);
  if (!texts.ok()) return texts.status();
  std::string names;
  for (const std::string& name : texts->allowed) names += name + "\n";
  HandedKeys keys;
  keys.message.revision = revision;
  keys.message.certificate = files.certificate;
  keys.message.key = files.key;
  keys.message.authority = files.authority;
  keys.message.restricted = texts->restricted;
  keys.texts.reset(memfd_create("tessera-control-keys", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!keys.texts.valid()) return Status::FromErrno("cannot make memory for keys", errno);
  const std::array<const std::string*, ControlKeysMessage::kTexts> all = {&texts->certificate, &texts->key, &texts->authority,
                                                                          &names};
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->size() > ControlKeysMessage::kTextBytesMax)
      return Status(StatusCode::kPermissionDenied, "the names that may connect are longer than a MiB: allow fewer");
    keys.message.text_bytes[i] = all[i]->size();
    if (write(keys.texts.get(), all[i]->data(), all[i]->size()) != static_cast<ssize_t>(all[i]->size()))
      return Status::FromErrno("cannot write keys to memory", errno);
  }
  if (fcntl(keys.texts.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return Status::FromErrno("cannot seal the memory of keys", errno);
  return keys;
}

}  // namespace tessera
