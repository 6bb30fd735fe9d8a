// What all control messages (handshake.h, server_query.h) have in common: they begin with magic and kind. The functions serve the
// .cc files of these messages.
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

// The first four bytes of every control message. They also reveal a peer of another byte order.
inline constexpr uint32_t kControlMagic = 0x41525354;
// A datagram has to fit into the default socket buffer of Linux (net.core.wmem_default: 212,992 bytes).
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

// The kind of a message; kNone: it is too short, or has another magic or an unknown kind.
ControlKind ControlKindOf(std::span<const std::byte> message);

// Writes magic and kind.
inline void PutKind(Encoder& out, ControlKind kind) {
  out.Pod(kControlMagic);
  out.Pod(kind);
}

// A decoder behind magic and kind. It has failed if these are others, or the message exceeds kControlMessageBytesMax.
inline Decoder OpenControl(std::span<const std::byte> message, ControlKind kind) {
  Decoder in(message);
  if (message.size() > kControlMessageBytesMax || ControlKindOf(message) != kind) {
    in.Fail();
    return in;
  }
  in.Raw(sizeof(kControlMagic) + sizeof(ControlKind));
  return in;
}

// Reads a text that is only for people, and makes it printable, whatever the peer has put there.
inline std::string GetText(Decoder& in, size_t bytes_max) { return Printable(in.String(bytes_max), bytes_max); }

// kProtocolViolation for a malformed `what`.
inline Status MalformedControl(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, "the peer sent a malformed " + std::string(what));
}

}  // namespace tessera
