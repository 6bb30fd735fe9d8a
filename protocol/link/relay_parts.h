// What the files of Relay share; for them alone.
#pragma once

#include <span>
#include <string>

#include "protocol/base/status.h"
#include "protocol/link/link.h"

namespace tessera {

inline Status RelayViolation(const std::string& what) { return Status(StatusCode::kProtocolViolation, what); }

// Sends a message of a channel's socket to the other host.
inline Status SendControl(Link& link, std::span<const std::byte> message) {
  return link.Send({FrameKind::kControl, 0, message.size(), 0, 0}, message);
}

}  // namespace tessera
