// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// What both ends must agree on, compared in the handshake. Include it there alone: it changes with every message.
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr uint64_t kSpecHash = 0xf2a88b1da151679b;

}  // namespace tessera
