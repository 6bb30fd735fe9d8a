// How many heaps the C library makes for the threads of a service.
#pragma once

#include <malloc.h>

namespace tessera {

inline constexpr int kHeapsMax = 4;

// From now on all threads of the process share kHeapsMax heaps (mallopt(3), M_ARENA_MAX). Call it before the first thread begins:
// heaps that are there stay. Otherwise the C library makes up to eight for each processor. Each keeps what was freed in it: with
// 16 processors 1,024 strangers of a gateway took twice the memory. Not for services of gRPC, whose threads then wait for each
// other: a flooded broker of two processors did not answer ten questions in a minute, where 11 to 17 s are usual.
inline void UseFewHeaps() { mallopt(M_ARENA_MAX, kHeapsMax); }

}  // namespace tessera
