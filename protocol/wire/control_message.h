// What all control messages (handshake.h, server_query.h) have in common: magic and kind in front. The functions are for their
// .cc files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocol/base/printable.h"
#include "protocol/base/status.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {

// First four bytes of every control message; also tells a peer of another byte order.
inline constexpr uint32_t kControlMagic = 0x41525354;
// A datagram must fit the default socket buffer of Linux (net.core.wmem_default 212,992 bytes).
inline constexpr size_t kControlMessageBytesMax = 160 * 1024;

enum class ControlKind : uint32_t {
  kNone = 0,
  kClientHello = 1,
  kServerWelcome = 2,
  kServerRefusal = 3,
  kSegmentOffer = 4,
  kSegmentClose = 5,
  kGoodbye = 6,
  kServerQuery = 7,  // server_query.h
  kServerReport = 8,
};

// The kind of a message; kNone when it is too short, has another magic or an unknown kind.
ControlKind ControlKindOf(std::span<const std::byte> message);

inline void PutKind(Encoder& out, ControlKind kind) {
  out.Pod(kControlMagic);
  out.Pod(kind);
}

// Skips magic and kind; fails when they are others.
inline Decoder OpenControl(std::span<const std::byte> message, ControlKind kind) {
  Decoder in(message);
  if (message.size() > kControlMessageBytesMax || ControlKindOf(message) != kind) {
    in.Fail();
    return in;
  }
  in.Raw(sizeof(kControlMagic) + sizeof(ControlKind));
  return in;
}

// A text that nobody but people reads: what the peer has put there can be printed as it is.
inline std::string GetText(Decoder& in, size_t bytes_max) { return Printable(in.String(bytes_max), bytes_max); }

inline Status MalformedControl(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, "the peer sent a malformed " + std::string(what));
}

}  // namespace tessera
