// How each form of message field (protocol/spec/README.md) is written and read. Numbers and structs travel as their
// bytes, without padding between fields; a list as Encoder::Bytes, text as Encoder::String.
// Every length is checked against what remains of the record, whose size is bounded by the ring, before anything is
// made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocol/runtime/array.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

template <typename T>
void PutPod(Encoder& out, const T& value) {
  out.Pod(value);
}
template <typename T>
void GetPod(Decoder& in, T* value) {
  in.Pod(value);
}

inline void PutHandle(Encoder& out, HandleId id) { out.Pod(id); }
inline void GetHandle(Decoder& in, HandleId* id) { in.Pod(id); }

// Several of these in a row, which the generator puts together: one look at what room there is.
template <typename... T>
void PutFixed(Encoder& out, const T&... values) {
  static_assert((std::is_trivially_copyable_v<T> && ...));
  std::byte* to = out.Append((sizeof(T) + ...));
  if (to == nullptr) return;
  ((std::memcpy(to, &values, sizeof(T)), to += sizeof(T)), ...);
}
// No bool among them: that is checked. All become zero on failure.
template <typename... T>
void GetFixed(Decoder& in, T*... values) {
  static_assert(((std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>)&&...));
  const std::byte* from = in.Raw((sizeof(T) + ...)).data();
  if (from == nullptr) return static_cast<void>(((*values = T{}), ...));
  ((std::memcpy(values, from, sizeof(T)), from += sizeof(T)), ...);
}

inline void PutBytes(Encoder& out, std::span<const std::byte> bytes) { out.Bytes(bytes); }
inline void GetBytes(Decoder& in, std::span<const std::byte>* bytes) { in.Bytes(bytes); }

inline void PutString(Encoder& out, std::string_view text) { out.String(text); }
inline void GetString(Decoder& in, std::string_view* text) { in.String(text); }

template <typename T>
void PutArray(Encoder& out, const Array<T>& array) {
  out.Bytes(std::as_bytes(std::span<const T>(array)));
}
// The elements stay in the record where they are aligned there, else they are copied.
template <typename T>
void GetArray(Decoder& in, Array<T>* array) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::span<const std::byte> bytes;
  in.Bytes(&bytes);
  if (!in.ok()) return;
  if (bytes.size() % sizeof(T) != 0) return in.Fail();
  const size_t size = bytes.size() / sizeof(T);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0) {
    array->Borrow(reinterpret_cast<const T*>(bytes.data()), size);
  } else {
    std::memcpy(array->Allocate(size), bytes.data(), bytes.size());
  }
}

// A u32 number of texts, then each as a string.
void PutStrings(Encoder& out, const std::vector<std::string_view>& texts);
void GetStrings(Decoder& in, std::vector<std::string_view>* texts);

// Whether a list has as many elements as a number of the same message says.
template <typename T>
bool LengthIs(size_t size, T number) {
  if constexpr (std::is_signed_v<T>) {
    if (number < 0) return false;
  }
  return size == static_cast<size_t>(number);
}

}  // namespace tessera
