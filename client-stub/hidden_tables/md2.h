// The MD2 message digest (RFC 1319) and its keyed form (HMAC, RFC 2104). Only the hidden table INTEGRITY_CHECK needs them. Use
// them for nothing else: MD2 gives no security. Pure; any thread.
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
