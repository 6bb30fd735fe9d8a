// Writes a message as bytes, one field after another, without padding between fields.
//
//   Encoder encoder;                        // grows; Clear() keeps its memory
//   encoder.Pod(header);
//   encoder.String(name);
//   if (!encoder.ok()) ...                  // a bound was exceeded: bytes() is empty
//   ring.TryAppend(encoder.bytes());
//
// Numbers travel in the byte order of x86-64 (little-endian). Both ends are such machines; the handshake's magic checks it. One
// thread at a time may use an encoder. Never throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

namespace tessera {

class Encoder {
 public:
  // The largest message of a growing encoder. It only catches mistakes: a record takes a quarter of its ring at most (1 MiB of
  // the default 4 MiB), and larger arguments go in pieces.
  static constexpr size_t kBytesMax = size_t{16} << 20;

  // Grows on demand up to `bytes_max`. Takes no memory before the first byte.
  explicit Encoder(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}
  // Writes into `fixed`, never beyond it. `fixed` has to outlive the encoder.
  explicit Encoder(std::span<std::byte> fixed)
      : data_(fixed.data()), capacity_(fixed.size()), bytes_max_(fixed.size()), growing_(false) {}
  Encoder(Encoder&&) = delete;
  Encoder& operator=(Encoder&&) = delete;

  // Writes the bytes of `value`. A `bool` travels as one byte, 0 or 1.
  template <typename T>
  void Pod(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (std::byte* to = Append(sizeof(T))) std::memcpy(to, &value, sizeof(T));
  }
  // Writes a u64 length, then the bytes.
  void Bytes(std::span<const std::byte> bytes) {
    const uint64_t size = bytes.size();
    std::byte* to = Append(sizeof(size) + bytes.size());
    if (to == nullptr) return;
    std::memcpy(to, &size, sizeof(size));
    if (!bytes.empty()) std::memcpy(to + sizeof(size), bytes.data(), bytes.size());
  }
  // Writes a u32 length, then the characters, without a NUL. Text of 4 GiB and more overflows.
  void String(std::string_view text) {
    if (text.size() > UINT32_MAX) return Overflow();
    Pod(static_cast<uint32_t>(text.size()));
    Raw(std::as_bytes(std::span(text)));
  }
  // Writes the bytes alone: the reader has to know their number.
  void Raw(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (std::byte* to = Append(bytes.size())) std::memcpy(to, bytes.data(), bytes.size());
  }
  // Writes zero bytes until the message's size is a multiple of `alignment` (a power of two).
  void AlignTo(size_t alignment) {
    const size_t gap = (alignment - size_ % alignment) % alignment;
    if (gap == 0) return;
    constexpr uint64_t kZero = 0;
    if (gap < sizeof(kZero) && capacity_ - size_ >= sizeof(kZero)) {  // the usual case: one store, of which the gap counts
      std::memcpy(data_ + size_, &kZero, sizeof(kZero));
      size_ += gap;
      return;
    }
    if (std::byte* to = Append(gap)) std::memset(to, 0, gap);
  }
  // Reserves `size` bytes, which the caller fills in before the next use of this encoder. Null on overflow.
  [[gnu::always_inline]] std::byte* Append(size_t size) {
    if (size > capacity_ - size_ && !Grow(size)) return nullptr;
    std::byte* to = data_ + size_;
    size_ += size;
    return to;
  }

  // False after the first write that did not fit: nothing is written any more.
  bool ok() const { return !overflow_; }
  size_t size() const { return size_; }
  // The bytes written so far. Empty after an overflow, so that half a message is never sent.
  std::span<const std::byte> bytes() const { return {data_, overflow_ ? 0 : size_}; }
  // The same, for a field whose value is known only at the end (a length in a header).
  std::span<std::byte> mutable_bytes() { return {data_, overflow_ ? 0 : size_}; }
  // Starts a new message in the same memory and forgets an overflow.
  void Clear() {
    size_ = 0;
    if (overflow_ && growing_) capacity_ = owned_capacity_;
    if (overflow_ && !growing_) capacity_ = bytes_max_;
    overflow_ = false;
  }

 private:
  void Overflow();
  bool Grow(size_t size);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;  // equals size_ after an overflow, so that every later Append() calls Grow()
  const size_t bytes_max_;
  size_t owned_capacity_ = 0;
  bool overflow_ = false;
  const bool growing_ = true;
  std::unique_ptr<std::byte[]> owned_;
};

}  // namespace tessera
