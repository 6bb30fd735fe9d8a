// Handshake messages that come after the handshake (RFC 8446, 4.6): new keys, and a server's tickets, which are skipped. A record
// may hold several of them, or a part of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"

namespace tessera {

class TlsMessages {
 public:
  // `from_server`: the peer is a server. A client may send new keys only.
  explicit TlsMessages(bool from_server) : from_server_(from_server) {}

  enum class Heard : uint8_t { kNothing, kNewKeys, kNewKeysWanted };
  // Takes the content of the next handshake record. kNewKeys: from now on the peer uses its next keys. kNewKeysWanted: it also
  // wants us to change ours. kProtocolViolation: a message that may not come here.
  Result<Heard> Take(std::span<const std::byte> content);
  // Whether a message has begun and not ended: its rest comes in the next record.
  bool within() const { return have_ != 0; }

 private:
  static constexpr size_t kHeaderBytes = 4;  // the kind, and the length of what follows

  const bool from_server_;
  std::array<uint8_t, kHeaderBytes + 1> begin_{};  // the part of the present message that matters
  size_t have_ = 0;                                // bytes of it that have come
};

}  // namespace tessera
