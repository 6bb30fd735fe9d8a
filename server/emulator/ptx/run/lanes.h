// Loops over the lanes of a warp, shared by all instruction families.
//
// A family writes a small struct with a static function Run(a, b, ...) and uses Unary/Binary/Ternary<Struct, Result, Arguments>
// as the handler. With all lanes active the loop has a fixed count and no branches, so that the compiler vectorises it.
#pragma once

#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {

template <class F>
inline __attribute__((always_inline)) void ForLanes(uint32_t mask, F&& each) {
  if (mask == kAllLanes) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (uint32_t lane = 0; lane < kLaneCount; ++lane) each(lane);
  } else {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) each(static_cast<uint32_t>(std::countr_zero(rest)));
  }
}

template <class F, class D, class A>
void Unary(Warp& w, const Inst& inst, uint32_t mask) {
  D* d = w.Slot<D>(inst.dst);
  const A* a = w.Slot<A>(inst.src[0]);
  ForLanes(mask, [&](uint32_t l) { d[l] = F::Run(a[l]); });
}

template <class F, class D, class A, class B>
void Binary(Warp& w, const Inst& inst, uint32_t mask) {
  D* d = w.Slot<D>(inst.dst);
  const A* a = w.Slot<A>(inst.src[0]);
  const B* b = w.Slot<B>(inst.src[1]);
  ForLanes(mask, [&](uint32_t l) { d[l] = F::Run(a[l], b[l]); });
}

template <class F, class D, class A, class B, class C>
void Ternary(Warp& w, const Inst& inst, uint32_t mask) {
  D* d = w.Slot<D>(inst.dst);
  const A* a = w.Slot<A>(inst.src[0]);
  const B* b = w.Slot<B>(inst.src[1]);
  const C* c = w.Slot<C>(inst.src[2]);
  ForLanes(mask, [&](uint32_t l) { d[l] = F::Run(a[l], b[l], c[l]); });
}

// Sets the bits of a predicate's lanes.
inline void WriteBits(Warp& w, uint32_t slot, uint32_t bits, uint32_t mask) {
  uint32_t& d = *w.Slot<uint32_t>(slot);
  d = (d & ~mask) | (bits & mask);
}

}  // namespace tessera::emulator
