// What all control messages (handshake.h, server_query.h) have in common: magic and kind in front. For their .cc files.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handshake.h"

namespace tessera {

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

inline Status MalformedControl(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, "the peer sent a malformed " + std::string(what));
}

}  // namespace tessera
