// Handshake messages behind the handshake (RFC 8446, 4.6): new keys, and a server's tickets, which are passed over. A record may
// have several of them, or a part of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/base/status.h"

namespace tessera {

class TlsMessages {
 public:
  // `from_server`: whether the peer is one. A client has nothing to send but new keys.
  explicit TlsMessages(bool from_server) : from_server_(from_server) {}

  enum class Heard : uint8_t { kNothing, kNewKeys, kNewKeysWanted };
  // Takes the content of the next record of this kind. kNewKeys: what follows has the peer's next keys, kNewKeysWanted: and it
  // wants ours to change too. kProtocolViolation for what does not belong here.
  Result<Heard> Take(std::span<const std::byte> content);
  // Whether a message has begun and not ended: its rest comes in the next record.
  bool within() const { return have_ != 0; }

 private:
  static constexpr size_t kHeaderBytes = 4;  // the kind, and the length of what follows

  const bool from_server_;
  std::array<uint8_t, kHeaderBytes + 1> begin_{};  // of the message that has begun: as much of it as is looked at
  size_t have_ = 0;                                // bytes of it that have come
};

}  // namespace tessera
