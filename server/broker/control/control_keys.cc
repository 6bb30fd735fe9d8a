#include "server/broker/control/control_keys.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace tessera {
namespace {

constexpr std::string_view kProtocol = "h2";  // of gRPC, whose clients want to hear it

}  // namespace

Result<std::shared_ptr<const TlsIdentity>> IdentityOf(const ControlKeys& keys) {
  KeyTexts texts;
  std::string names;
  const std::array<std::string*, ControlKeysMessage::kTexts> all = {&texts.certificate, &texts.key, &texts.authority, &names};
  off_t at = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i]->resize(keys.message.text_bytes[i]);
    if (pread(keys.texts.get(), all[i]->data(), all[i]->size(), at) != static_cast<ssize_t>(all[i]->size()))
      return Status(StatusCode::kProtocolViolation, "the daemon sent keys that are shorter than it says");
    at += static_cast<off_t>(all[i]->size());
  }
  texts.restricted = keys.message.restricted;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find('\n', begin), names.size());
    texts.allowed.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  const KeyFiles files = {keys.message.certificate, keys.message.key, keys.message.authority};
  return TlsIdentity::Make(TlsRole::kServer, files, texts, kProtocol);
}

}  // namespace tessera
