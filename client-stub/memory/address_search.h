// Finds addresses of a window among bytes of unknown meaning: parameters of a kernel, or a structure that is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Calls `found(address)`, in order, for every eight bytes of `values` that are an address in `window`, wherever they begin. Ends
// early, with false, when `found` returns false. It looks for the byte that all addresses of the window share, so other bytes are
// passed over quickly. `window` lies below 2^48, as all user addresses do.
template <typename Found>
bool ForEachAddress(const Range& window, std::span<const std::byte> values, const Found& found) {
  constexpr size_t kByte = 5;  // of an address, from the lowest; those above it are 0
  const auto least = static_cast<unsigned char>(window.base >> (8 * kByte));
  const auto most = static_cast<unsigned char>((window.base + window.bytes - 1) >> (8 * kByte));
  for (size_t at = 0; at + sizeof(uint64_t) <= values.size(); ++at) {
    if (least == most) {
      const size_t places = values.size() - sizeof(uint64_t) - at + 1;
      const void* const next = std::memchr(values.data() + at + kByte, least, places);
      if (next == nullptr) return true;
      at = static_cast<size_t>(static_cast<const std::byte*>(next) - values.data()) - kByte;
    } else if (const auto byte = std::to_integer<unsigned char>(values[at + kByte]); byte < least || byte > most) {
      continue;
    }
    uint64_t address = 0;
    std::memcpy(&address, values.data() + at, sizeof(address));
    if (window.contains(address) && !found(address)) return false;
  }
  return true;
}

}  // namespace tessera
