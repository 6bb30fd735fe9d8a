// Reads what Encoder wrote. Nobody else may change the bytes meanwhile: copy a record out of shared memory, decode it, check it,
// then use it.
//
//   Decoder in(record);
//   const auto id = in.Pod<uint64_t>();
//   const std::string_view name = in.String(kNameBytesMax);
//   if (!in.ok()) return Malformed();
//
// Failure is sticky: after the first read that does not fit, every read yields zeros or empty views. So a caller decodes the
// whole message and checks ok() once, at its end. Views point into the decoded bytes. One thread at a time may use a decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace tessera {

class Decoder {
 public:
  // The bound of a length that only the rest of the message has to bound.
  static constexpr size_t kWhatRemains = SIZE_MAX;
  // Records are padded to a multiple of this (protocol/wire/record.h).
  static constexpr size_t kPadding = 8;

  Decoder() = default;
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  // Reads the bytes of a T. A `bool` other than 0 or 1 is a failure.
  template <typename T>
  T Pod() {
    T value{};
    Pod(&value);
    return value;
  }
  // The same, into `value`, which becomes zero on failure.
  template <typename T>
  void Pod(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::byte* from = Take(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      if (from != nullptr && std::to_integer<unsigned>(*from) > 1) {
        Fail();
        from = nullptr;
      }
      *value = from != nullptr && std::to_integer<unsigned>(*from) == 1;
    } else {
      if (from == nullptr) {
        *value = T{};
      } else {
        std::memcpy(value, from, sizeof(T));
      }
    }
  }

  // Reads a u64 length and that many bytes. More than `bytes_max` are a failure.
  std::span<const std::byte> Bytes(size_t bytes_max) { return Raw(Length<uint64_t>(bytes_max)); }
  void Bytes(std::span<const std::byte>* bytes, size_t bytes_max = kWhatRemains) { *bytes = Bytes(bytes_max); }
  // Reads a u32 length and that many characters. More than `bytes_max` are a failure.
  std::string_view String(size_t bytes_max) {
    const std::span<const std::byte> bytes = Raw(Length<uint32_t>(bytes_max));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void String(std::string_view* text, size_t bytes_max = kWhatRemains) { *text = String(bytes_max); }
  // Reads `size` bytes that have no length in front.
  std::span<const std::byte> Raw(size_t size) {
    const std::byte* from = Take(size);
    if (from == nullptr) return {};
    return {from, size};
  }
  // Reads a number of elements, of type `Count`. It fails unless the message still has `element_bytes_min` bytes for each of
  // them: so the size of the message bounds what a caller allocates for a count. More than `count_max` are a failure too.
  template <typename Count = uint32_t>
  size_t CountOf(size_t count_max, size_t element_bytes_min) {
    const auto count = Pod<Count>();
    if (count > count_max || (element_bytes_min != 0 && count > rest_.size() / element_bytes_min)) {
      Fail();
      return 0;
    }
    return count;
  }

  bool ok() const { return !failed_; }
  // Makes this and every later read a failure, for a caller that has found a bad value.
  void Fail() {
    failed_ = true;
    rest_ = {};
  }
  size_t remaining() const { return rest_.size(); }
  // True if nothing failed and all was read: at most kPadding - 1 bytes are left, all zero.
  bool AtEnd() const {
    if (failed_ || rest_.size() >= kPadding) return false;
    for (std::byte byte : rest_) {
      if (byte != std::byte{0}) return false;
    }
    return true;
  }

 private:
  template <typename Number>
  size_t Length(size_t bytes_max) {
    const auto length = Pod<Number>();
    if (length <= bytes_max) return length;
    Fail();
    return 0;
  }
  // Null on failure only: reading 0 bytes yields a pointer even if nothing is left.
  const std::byte* Take(size_t size) {
    static constexpr std::byte kNothing{};
    if (failed_ || size > rest_.size()) {
      Fail();
      return nullptr;
    }
    const std::byte* from = rest_.data() != nullptr ? rest_.data() : &kNothing;
    rest_ = rest_.subspan(size);
    return from;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace tessera
