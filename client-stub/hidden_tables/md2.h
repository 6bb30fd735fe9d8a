// The message digest of RFC 1319 and its keyed form (RFC 2104): the check of hidden table INTEGRITY_CHECK is built on
// them. For nothing else: MD2 is no security. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

using Md2Digest = std::array<uint8_t, 16>;

Md2Digest Md2(std::span<const uint8_t> message);
Md2Digest HmacMd2(std::span<const uint8_t, 16> key, std::span<const uint8_t> message);

}  // namespace tessera
