// Reading little-endian fields out of untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tessera::code_image {

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const { return bytes_.size(); }
  bool Contains(uint64_t offset, uint64_t length) const { return offset <= size() && length <= size() - offset; }

  // False when the field does not lie inside.
  template <class T>
  bool Read(uint64_t offset, T* value) const {
    if (!Contains(offset, sizeof(T))) return false;
    std::memcpy(value, bytes_.data() + offset, sizeof(T));
    return true;
  }
  // Empty when the range does not lie inside.
  std::span<const std::byte> Slice(uint64_t offset, uint64_t length) const {
    if (!Contains(offset, length)) return {};
    return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
  }
  // The NUL-terminated string at `offset`; false when it does not end inside.
  bool String(uint64_t offset, std::string_view* text) const {
    if (offset >= size()) return false;
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    const void* end = std::memchr(begin, 0, static_cast<size_t>(size() - offset));
    if (end == nullptr) return false;
    *text = std::string_view(begin, static_cast<size_t>(static_cast<const char*>(end) - begin));
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tessera::code_image
