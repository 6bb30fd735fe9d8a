// The rows of a box in memory of this process, and the same rows packed without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera {

struct HostRows {
  std::byte* first = nullptr;
  uint64_t pitch = 0;        // from row to row
  uint64_t slice_bytes = 0;  // from slice to slice
  uint64_t width = 0;        // bytes of a row
  uint64_t height = 0;       // rows of a slice
  uint64_t depth = 0;        // slices

  uint64_t bytes() const { return width * height * depth; }
  // Calls `visit(row, packed)` for every row with the offset at which it lies when packed.
  template <typename Visit>
  void ForEach(Visit visit) const {
    uint64_t packed = 0;
    for (uint64_t z = 0; z < depth; ++z) {
      for (uint64_t y = 0; y < height; ++y, packed += width) visit(first + z * slice_bytes + y * pitch, packed);
    }
  }
  void Pack(std::byte* to) const {
    ForEach([&](const std::byte* row, uint64_t packed) { std::memcpy(to + packed, row, width); });
  }
  void Unpack(const std::byte* from) const {
    ForEach([&](std::byte* row, uint64_t packed) { std::memcpy(row, from + packed, width); });
  }
  // To rows of the same shape.
  void CopyTo(const HostRows& to) const {
    ForEach([&, row = uint64_t{0}](const std::byte* from, uint64_t) mutable {
      std::memmove(to.first + row / height * to.slice_bytes + row % height * to.pitch, from, width);
      ++row;
    });
  }
};

}  // namespace tessera
