// A number that tells sequences of bytes apart, against accidents and not against whoever chooses the bytes: FNV-1a (Fowler,
// Noll, Vo), 64 bits. It is the same on every machine, and in every release.
//
//   ChecksumOf(std::as_bytes(std::span(text)))
//   ChecksumOf(second, ChecksumOf(first))          // of both, one behind the other
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

inline constexpr uint64_t kNoBytesChecksum = 0xcbf29ce484222325;

inline uint64_t ChecksumOf(std::span<const std::byte> bytes, uint64_t before = kNoBytesChecksum) {
  for (const std::byte byte : bytes) before = (before ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  return before;
}

}  // namespace tessera
