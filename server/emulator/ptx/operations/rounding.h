// Directed rounding. A handler runs under another rounding mode by being called between two writes of MXCSR.
//
// Handlers read and write memory only, and are called through a pointer, so no arithmetic moves across the change of mode.
#pragma once

#include <immintrin.h>

#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };  // .rn .rz .rm .rp

class RoundingScope {
 public:
  explicit RoundingScope(Rounding mode) : saved_(_mm_getcsr()) {
    const unsigned bits = mode == Rounding::kZero   ? 0x6000
                          : mode == Rounding::kDown ? 0x2000
                          : mode == Rounding::kUp   ? 0x4000
                                                    : 0;
    _mm_setcsr((saved_ & ~0x6000u) | bits);
    asm volatile("" ::: "memory");
  }
  ~RoundingScope() {
    asm volatile("" ::: "memory");
    _mm_setcsr(saved_);
  }

 private:
  unsigned saved_;
};

template <Handler kRun, Rounding kMode>
void Rounded(Warp& warp, const Inst& inst, uint32_t mask) {
  volatile Handler run = kRun;
  RoundingScope scope(kMode);
  run(warp, inst, mask);
}

template <Handler kRun>
Handler WithRounding(Rounding mode) {
  switch (mode) {
    case Rounding::kZero: return &Rounded<kRun, Rounding::kZero>;
    case Rounding::kDown: return &Rounded<kRun, Rounding::kDown>;
    case Rounding::kUp: return &Rounded<kRun, Rounding::kUp>;
    default: return kRun;
  }
}

// Takes .rn/.rz/.rm/.rp; nearest when there is none. Returns false in `given` then.
inline Rounding TakeRounding(Lowering& l, bool* given = nullptr) {
  if (given != nullptr) *given = true;
  if (l.Take("rn")) return Rounding::kNearest;
  if (l.Take("rz")) return Rounding::kZero;
  if (l.Take("rm")) return Rounding::kDown;
  if (l.Take("rp")) return Rounding::kUp;
  if (given != nullptr) *given = false;
  return Rounding::kNearest;
}

}  // namespace tessera::emulator
