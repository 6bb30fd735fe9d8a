// A token as a field of a message.
#pragma once

#include <algorithm>
#include <span>

#include "server/shares/share.h"

namespace tessera {

// False when the bytes are not a token's.
inline bool ReadToken(std::span<const std::byte> bytes, ShareToken* token) {
  if (bytes.size() != token->bytes.size()) return false;
  std::copy(bytes.begin(), bytes.end(), token->bytes.begin());
  return true;
}

}  // namespace tessera
