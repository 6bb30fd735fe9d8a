// Monotonic time as the data path measures it. Pure code (scheduler, placement) takes time as an argument instead.
#pragma once

#include <cstdint>

namespace tessera {

// Nanoseconds of CLOCK_MONOTONIC. Any thread.
uint64_t MonotonicNs();

// Tells the processor that the calling thread spins.
inline void CpuRelax() { __builtin_ia32_pause(); }

}  // namespace tessera
