// Reads what Encoder wrote, from bytes that nobody else can change meanwhile: a record is copied out of shared memory
// before it is decoded, then checked, then used.
//
//   Decoder in(record);
//   const auto id = in.Pod<uint64_t>();
//   const std::string_view name = in.String(kNameBytesMax);
//   if (!in.ok()) return Malformed();
//
// Failure is sticky: after the first read that does not fit, every read yields zeros or empties, so a message is decoded
// straight through and checked once at its end. Views point into the decoded bytes. Used by one thread at a time.
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
  // For lengths that need no bound but what remains of the message.
  static constexpr size_t kWhatRemains = SIZE_MAX;
  // Records are padded to a multiple of this (protocol/wire/record.h).
  static constexpr size_t kPadding = 8;

  Decoder() = default;
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  // A `bool` other than 0 or 1 is a failure.
  template <typename T>
  T Pod() {
    T value{};
    Pod(&value);
    return value;
  }
  // As above into `value`, which becomes zero on failure.
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

  // A u64 length and that many bytes; a failure when there are more than `bytes_max`.
  std::span<const std::byte> Bytes(size_t bytes_max) { return Raw(Length<uint64_t>(bytes_max)); }
  void Bytes(std::span<const std::byte>* bytes, size_t bytes_max = kWhatRemains) { *bytes = Bytes(bytes_max); }
  // A u32 length and that many characters.
  std::string_view String(size_t bytes_max) {
    const std::span<const std::byte> bytes = Raw(Length<uint32_t>(bytes_max));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void String(std::string_view* text, size_t bytes_max = kWhatRemains) { *text = String(bytes_max); }
  // `size` bytes without a length in front.
  std::span<const std::byte> Raw(size_t size) {
    const std::byte* from = Take(size);
    if (from == nullptr) return {};
    return {from, size};
  }
  // A number of elements of type `Count`, of which at least `element_bytes_min` bytes each must still follow: what is
  // allocated from a count is then bounded by the size of the message.
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
  void Fail() {
    failed_ = true;
    rest_ = {};
  }
  size_t remaining() const { return rest_.size(); }
  // Everything was read: nothing is left but fewer than kPadding zero bytes.
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
  // Null on failure only: an empty read of an empty rest yields a pointer too.
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
