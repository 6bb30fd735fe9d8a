// What the generated handlers of the worker share. Used by the thread that runs the handler.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"

namespace tessera {

// A number of elements that a client sent; one that cannot be is turned into one that no scratch memory can hold.
template <typename T>
size_t SizeOf(T value) {
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) return std::numeric_limits<size_t>::max();
  }
  return static_cast<size_t>(value);
}

// Zeroed scratch memory of the call for `count` elements, at least one byte. Null, and the call fails, where that is
// more than one call may use.
template <typename T>
T* ScratchFor(CallContext& call, size_t count) {
  if (count > std::numeric_limits<size_t>::max() / sizeof(T) - 1) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return nullptr;
  }
  void* memory = call.Scratch((count + 1) * sizeof(T));
  if (memory != nullptr) std::memset(memory, 0, (count + 1) * sizeof(T));
  return static_cast<T*>(memory);
}

// `text` with a terminating NUL.
inline const char* ScratchText(CallContext& call, std::string_view text) {
  char* copy = ScratchFor<char>(call, text.size());
  if (copy != nullptr) std::copy(text.begin(), text.end(), copy);
  return copy;
}

// The text that the driver wrote into a buffer of `size` bytes.
inline std::string_view TextIn(const char* buffer, size_t size) { return {buffer, strnlen(buffer, size)}; }

// How many of `capacity` elements the driver says it filled.
template <typename T>
size_t Smaller(size_t capacity, T filled) {
  return std::min(capacity, SizeOf(filled));
}

// Elements that the driver only reads although its prototype does not say so.
template <typename T>
T* Writable(const T* elements) {
  return const_cast<T*>(elements);
}

}  // namespace tessera
