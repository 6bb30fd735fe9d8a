// The first bytes that each end of a stream link sends, inside TLS if there is any.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/status.h"

namespace tessera {

// Changes with the preamble, FrameHeader, or what frames mean (link.h).
inline constexpr uint32_t kLinkVersion = 3;

struct Preamble {
  static constexpr uint32_t kMagic = 0x4b4e4c54;  // "TLNK"
  uint32_t magic = kMagic;
  uint32_t version = kLinkVersion;
  uint32_t reserved[2] = {};
};
static_assert(sizeof(Preamble) == 16);

// Ok when the preamble of `who` ("gateway", "client") is of our version, else kVersionMismatch.
inline Status CheckLinkVersion(const char* who, const Preamble& theirs) {
  if (theirs.version == kLinkVersion) return Status::Ok();
  return Status(StatusCode::kVersionMismatch, std::string("the ") + who + " speaks link version " +
                                                  std::to_string(theirs.version) + ", this side " + std::to_string(kLinkVersion) +
                                                  ": install the same release of tessera on both sides");
}

}  // namespace tessera
