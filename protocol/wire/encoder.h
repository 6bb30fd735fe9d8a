// Writes a message as bytes, one field behind the other, without padding between fields.
//
//   Encoder encoder;                        // grows, keeps its memory over Clear()
//   encoder.Pod(header);
//   encoder.String(name);
//   if (!encoder.ok()) ...                  // a bound was exceeded: bytes() is empty
//   ring.TryAppend(encoder.bytes());
//
// Numbers travel in the byte order of x86-64 (little-endian); both ends are such machines, the handshake's magic says so.
// Used by one thread at a time. Never throws.
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
  // Largest message a growing encoder accepts. Records are bounded by a quarter of their ring (1 MiB of the default 4 MiB)
  // and larger arguments go in pieces, so this is a bound on mistakes, not on use.
  static constexpr size_t kBytesMax = size_t{16} << 20;

  // Grows on demand up to `bytes_max`. No memory is taken before the first byte.
  explicit Encoder(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}
  // Writes into `fixed`, which outlives the encoder, and never beyond it.
  explicit Encoder(std::span<std::byte> fixed)
      : data_(fixed.data()), capacity_(fixed.size()), bytes_max_(fixed.size()), growing_(false) {}
  Encoder(Encoder&&) = delete;
  Encoder& operator=(Encoder&&) = delete;

  // The bytes of `value`. `bool` travels as one byte 0 or 1.
  template <typename T>
  void Pod(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (std::byte* to = Append(sizeof(T))) std::memcpy(to, &value, sizeof(T));
  }
  // A u64 length, then the bytes.
  void Bytes(std::span<const std::byte> bytes) {
    const uint64_t size = bytes.size();
    std::byte* to = Append(sizeof(size) + bytes.size());
    if (to == nullptr) return;
    std::memcpy(to, &size, sizeof(size));
    if (!bytes.empty()) std::memcpy(to + sizeof(size), bytes.data(), bytes.size());
  }
  // A u32 length, then the characters, no NUL. Text of 4 GiB and more overflows.
  void String(std::string_view text) {
    if (text.size() > UINT32_MAX) return Overflow();
    Pod(static_cast<uint32_t>(text.size()));
    Raw(std::as_bytes(std::span(text)));
  }
  // The bytes alone; the reader knows how many.
  void Raw(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (std::byte* to = Append(bytes.size())) std::memcpy(to, bytes.data(), bytes.size());
  }
  // Zero bytes up to the next multiple of `alignment` (a power of two) from the start of the message.
  void AlignTo(size_t alignment) {
    const size_t gap = (alignment - size_ % alignment) % alignment;
    if (gap == 0) return;
    constexpr uint64_t kZero = 0;
    if (gap < sizeof(kZero) && capacity_ - size_ >= sizeof(kZero)) {  // as a rule: one store, of which the gap is kept
      std::memcpy(data_ + size_, &kZero, sizeof(kZero));
      size_ += gap;
      return;
    }
    if (std::byte* to = Append(gap)) std::memset(to, 0, gap);
  }
  // Room for `size` bytes that the caller fills in before the next use of this encoder; null on overflow.
  [[gnu::always_inline]] std::byte* Append(size_t size) {
    if (size > capacity_ - size_ && !Grow(size)) return nullptr;
    std::byte* to = data_ + size_;
    size_ += size;
    return to;
  }

  // False from the first write that did not fit; nothing is written after it.
  bool ok() const { return !overflow_; }
  size_t size() const { return size_; }
  // What was written; empty after an overflow, so that half a message is never sent.
  std::span<const std::byte> bytes() const { return {data_, overflow_ ? 0 : size_}; }
  // The same, to fill in a field whose value is known at the end (a length in a header).
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
  size_t capacity_ = 0;  // equals size_ after an overflow, so that every later Append comes to Grow()
  const size_t bytes_max_;
  size_t owned_capacity_ = 0;
  bool overflow_ = false;
  const bool growing_ = true;
  std::unique_ptr<std::byte[]> owned_;
};

}  // namespace tessera
