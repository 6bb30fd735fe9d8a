// What the generated entry points of the stub share. Any thread.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>

#include "protocol/wire/handle.h"

#define TESSERA_EXPORT extern "C" __attribute__((visibility("default")))

// The body of an export. What the standard library throws ends here (nothing may unwind into the application); other
// unwinding, such as pthread_cancel's, passes.
#define TESSERA_GUARD(call)          \
  try {                              \
    return ::tessera::call;          \
  } catch (const std::exception&) {  \
    return CUDA_ERROR_OUT_OF_MEMORY; \
  }

namespace tessera {

// The object the application sees for a handle: the number itself, as a pointer where CUDA's type is one.
template <typename T>
T ToObject(HandleId id) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(uint64_t(id));
  } else {
    return static_cast<T>(uint64_t(id));
  }
}

// False for a negative number of elements.
template <typename T>
bool LengthOf(T value, size_t* length) {
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) return false;
  }
  *length = static_cast<size_t>(value);
  return true;
}

// Copies `text` with its NUL into the caller's buffer of `size` bytes, cut off where it does not fit.
inline void StoreText(std::string_view text, char* buffer, size_t size) {
  if (size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
}

}  // namespace tessera
