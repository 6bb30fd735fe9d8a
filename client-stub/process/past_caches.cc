#include "client-stub/process/past_caches.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera {

#if defined(__x86_64__)

namespace {

constexpr size_t kCacheLine = 64;

// Whole lines alone are written past the caches: parts of one would be read first.
struct Lines {
  Lines(void* to, const void* from, size_t bytes)
      : written(static_cast<char*>(to)), read(static_cast<const char*>(from)), left(bytes) {
    CopyHere(std::min<size_t>(-reinterpret_cast<uintptr_t>(written) % kCacheLine, left));
  }
  bool Any() const { return left >= kCacheLine; }
  void Next() { written += kCacheLine, read += kCacheLine, left -= kCacheLine; }
  void End() {
    _mm_sfence();  // before anything that says that it is there
    CopyHere(left);
  }

  char* written;
  const char* read;
  size_t left;

 private:
  void CopyHere(size_t bytes) {
    if (bytes > 0) std::memcpy(written, read, bytes);
    written += bytes, read += bytes, left -= bytes;
  }
};

}  // namespace

bool HasStoresOf64() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}

void CopyPastCachesBy16(void* to, const void* from, size_t bytes) {
  Lines lines(to, from, bytes);
  for (; lines.Any(); lines.Next()) {
    auto* const line = reinterpret_cast<__m128i*>(lines.written);
    const auto* const words = reinterpret_cast<const __m128i*>(lines.read);
    const __m128i a = _mm_loadu_si128(words), b = _mm_loadu_si128(words + 1), c = _mm_loadu_si128(words + 2),
                  d = _mm_loadu_si128(words + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  lines.End();
}

__attribute__((target("avx512f"))) void CopyPastCachesBy64(void* to, const void* from, size_t bytes, ReadAhead ahead) {
  constexpr size_t kAhead = 16 * kCacheLine;
  Lines lines(to, from, bytes);
  for (; lines.Any(); lines.Next()) {
    if (ahead == ReadAhead::kYes) _mm_prefetch(lines.read + kAhead, _MM_HINT_T0);  // beyond the end it does nothing
    _mm512_stream_si512(reinterpret_cast<__m512i*>(lines.written), _mm512_loadu_si512(lines.read));
  }
  lines.End();
}

#else

bool HasStoresOf64() { return false; }

void CopyPastCachesBy16(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void CopyPastCachesBy64(void* to, const void* from, size_t bytes, ReadAhead) { CopyPastCachesBy16(to, from, bytes); }

#endif

void CopyPastCaches(void* to, const void* from, size_t bytes, ReadAhead ahead) {
  HasStoresOf64() ? CopyPastCachesBy64(to, from, bytes, ahead) : CopyPastCachesBy16(to, from, bytes);
}

}  // namespace tessera
