// Times in nanoseconds, for tests.
#pragma once

#include <cstdint>

#include "protocol/base/clock.h"

namespace tessera {

inline constexpr int64_t kMs = 1'000'000;

// In time for a step of a test (MonotonicNs): whoever needs longer never comes.
inline uint64_t Soon() { return MonotonicNs() + 20'000'000'000; }

}  // namespace tessera
