#include "client-stub/process/past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tessera {

#if defined(__SSE2__)

void CopyPastCaches(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  auto* written = static_cast<char*>(to);
  const auto* read = static_cast<const char*>(from);
  if (bytes < 2 * kLine) {
    if (bytes > 0) std::memcpy(written, read, bytes);
    return;
  }
  // Whole lines alone: parts of one would be read first.
  const size_t head = -reinterpret_cast<uintptr_t>(written) % kLine;
  std::memcpy(written, read, head);
  written += head, read += head, bytes -= head;
  for (; bytes >= kLine; written += kLine, read += kLine, bytes -= kLine) {
    auto* const line = reinterpret_cast<__m128i*>(written);
    const auto* const words = reinterpret_cast<const __m128i*>(read);
    const __m128i a = _mm_loadu_si128(words), b = _mm_loadu_si128(words + 1), c = _mm_loadu_si128(words + 2),
                  d = _mm_loadu_si128(words + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  _mm_sfence();  // before anything that says that it is there
  std::memcpy(written, read, bytes);
}

#else

void CopyPastCaches(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

}  // namespace tessera
