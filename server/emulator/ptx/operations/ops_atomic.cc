// atom, red, fences. Source: PTX ISA 9.0, "Parallel Synchronization and Communication Instructions".
//
// Blocks run on several threads, so atomics on global memory are the processor's. A block's own memory is touched by one
// thread only.
#include <fmt/core.h>

#include "server/emulator/ptx/operations/float_math.h"
#include "server/emulator/ptx/operations/memory.h"
#include "server/emulator/ptx/run/half.h"

namespace tessera::emulator {
namespace {

template <class T>
struct AtomAdd {
  static T Run(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};
template <class T>
struct AtomAnd {
  static T Run(T a, T b) { return a & b; }
};
template <class T>
struct AtomOr {
  static T Run(T a, T b) { return a | b; }
};
template <class T>
struct AtomXor {
  static T Run(T a, T b) { return a ^ b; }
};
template <class T>
struct AtomExch {
  static T Run(T, T b) { return b; }
};
template <class T>
struct AtomMin {
  static T Run(T a, T b) { return b < a ? b : a; }
};
template <class T>
struct AtomMax {
  static T Run(T a, T b) { return b > a ? b : a; }
};
template <class T>
struct AtomInc {
  static T Run(T a, T b) { return a >= b ? 0 : a + 1; }
};
template <class T>
struct AtomDec {
  static T Run(T a, T b) { return a == 0 || a > b ? b : a - 1; }
};

struct HalfBits {
  uint16_t bits;
};
struct BrainBits {
  uint16_t bits;
};
struct HalfPair {
  uint32_t bits;
};
struct BrainPair {
  uint32_t bits;
};
template <>
struct AtomAdd<HalfBits> {
  static HalfBits Run(HalfBits a, HalfBits b) { return {FloatToHalf(HalfToFloat::Run(a.bits) + HalfToFloat::Run(b.bits))}; }
};
template <>
struct AtomAdd<BrainBits> {
  static BrainBits Run(BrainBits a, BrainBits b) { return {FloatToBrain(BrainToFloat::Run(a.bits) + BrainToFloat::Run(b.bits))}; }
};
template <class Pair, class One>
Pair AddPair(Pair a, Pair b) {
  const One low = AtomAdd<One>::Run({static_cast<uint16_t>(a.bits)}, {static_cast<uint16_t>(b.bits)});
  const One high = AtomAdd<One>::Run({static_cast<uint16_t>(a.bits >> 16)}, {static_cast<uint16_t>(b.bits >> 16)});
  return {low.bits | static_cast<uint32_t>(high.bits) << 16};
}
template <>
struct AtomAdd<HalfPair> {
  static HalfPair Run(HalfPair a, HalfPair b) { return AddPair<HalfPair, HalfBits>(a, b); }
};
template <>
struct AtomAdd<BrainPair> {
  static BrainPair Run(BrainPair a, BrainPair b) { return AddPair<BrainPair, BrainBits>(a, b); }
};

template <size_t kBytes>
struct BitsOf;
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
template <>
struct BitsOf<8> {
  using type = uint64_t;
};

template <class F, class T>
T Update(uint8_t* place, T operand) {
  using Bits = typename BitsOf<sizeof(T)>::type;
  auto* p = reinterpret_cast<Bits*>(place);
  if constexpr (std::is_integral_v<T> && std::is_same_v<F, AtomAdd<T>>) {
    return static_cast<T>(__atomic_fetch_add(p, static_cast<Bits>(operand), __ATOMIC_SEQ_CST));
  }
  Bits old = __atomic_load_n(p, __ATOMIC_RELAXED);
  for (;;) {
    const T next = F::Run(std::bit_cast<T>(old), operand);
    if (__atomic_compare_exchange_n(p, &old, std::bit_cast<Bits>(next), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return std::bit_cast<T>(old);
  }
}

// The old value goes to dst unless it is kNoSlot (red).
template <class F, class T>
struct AtomicOf {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      alignas(64) uint8_t* p[kLaneCount];
      if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(T), true, p)) return;
      const T* a = w.Slot<T>(inst.src[1]);
      T* d = inst.dst == kNoSlot ? nullptr : w.Slot<T>(inst.dst);
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = static_cast<uint32_t>(std::countr_zero(rest));
        const T operand = a[l];
        T old;
        if constexpr (kSpace == MemorySpace::kShared) {
          std::memcpy(&old, p[l], sizeof(T));
          const T next = F::Run(old, operand);
          std::memcpy(p[l], &next, sizeof(T));
        } else {
          old = Update<F, T>(p[l], operand);
        }
        if (d != nullptr) d[l] = old;
      }
    }
  };
};
template <class T>
struct CompareAndSwapOf {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      alignas(64) uint8_t* p[kLaneCount];
      if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(T), true, p)) return;
      const T* compare = w.Slot<T>(inst.src[1]);
      const T* value = w.Slot<T>(inst.src[2]);
      T* d = inst.dst == kNoSlot ? nullptr : w.Slot<T>(inst.dst);
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = static_cast<uint32_t>(std::countr_zero(rest));
        T old = compare[l];
        __atomic_compare_exchange_n(reinterpret_cast<T*>(p[l]), &old, value[l], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        if (d != nullptr) d[l] = old;
      }
    }
  };
};

template <class F, class T>
Handler Of(MemorySpace space, bool is_32bit) {
  return PickSpace<AtomicOf<F, T>::template In>(space, is_32bit);
}
template <template <class> class F>
Handler Bitwise(Type t, MemorySpace s, bool a) {
  return t.size_bytes == 4 ? Of<F<uint32_t>, uint32_t>(s, a) : t.size_bytes == 8 ? Of<F<uint64_t>, uint64_t>(s, a) : nullptr;
}
template <template <class> class F>
Handler Ordered(Type t, MemorySpace s, bool a) {
  if (t.IsSigned())
    return t.size_bytes == 4 ? Of<F<int32_t>, int32_t>(s, a) : t.size_bytes == 8 ? Of<F<int64_t>, int64_t>(s, a) : nullptr;
  return t.IsInteger() ? Bitwise<F>(t, s, a) : nullptr;
}
Handler Sum(Type t, MemorySpace s, bool a) {
  if (t == kF32) return Of<AtomAdd<float>, float>(s, a);
  if (t == kF64) return Of<AtomAdd<double>, double>(s, a);
  if (t == kF16) return Of<AtomAdd<HalfBits>, HalfBits>(s, a);
  if (t == kBf16) return Of<AtomAdd<BrainBits>, BrainBits>(s, a);
  if (t == kF16x2) return Of<AtomAdd<HalfPair>, HalfPair>(s, a);
  if (t == kBf16x2) return Of<AtomAdd<BrainPair>, BrainPair>(s, a);
  return t.IsInteger() ? Bitwise<AtomAdd>(t, s, a) : nullptr;
}

Handler PickOperation(Lowering& l, Type t, MemorySpace s, bool a) {
  if (l.Take("add")) return Sum(t, s, a);
  if (l.Take("min")) return Ordered<AtomMin>(t, s, a);
  if (l.Take("max")) return Ordered<AtomMax>(t, s, a);
  if (l.Take("and")) return Bitwise<AtomAnd>(t, s, a);
  if (l.Take("or")) return Bitwise<AtomOr>(t, s, a);
  if (l.Take("xor")) return Bitwise<AtomXor>(t, s, a);
  if (l.Take("exch")) return Bitwise<AtomExch>(t, s, a);
  if (l.Take("inc")) return t == kU32 ? Of<AtomInc<uint32_t>, uint32_t>(s, a) : nullptr;
  if (l.Take("dec")) return t == kU32 ? Of<AtomDec<uint32_t>, uint32_t>(s, a) : nullptr;
  return nullptr;
}

void LowerAtomic(Lowering& l, bool has_result) {
  const bool cas = l.Take("cas");
  const AccessModifiers access = TakeAccessModifiers(l);
  l.Take("noftz");
  l.Take("async");
  const Type t = l.TakeType();
  const size_t at = has_result ? 1 : 0;
  const Address address = l.AddressOf(at, access.space);
  if (l.failed()) return;
  MemorySpace space = MemorySpace::kGeneric;
  SpaceOf(l, access.space, &space);
  if (cas) {
    Handler run = t.size_bytes == 2   ? PickSpace<CompareAndSwapOf<uint16_t>::In>(space, address.is_32bit)
                  : t.size_bytes == 4 ? PickSpace<CompareAndSwapOf<uint32_t>::In>(space, address.is_32bit)
                  : t.size_bytes == 8 ? PickSpace<CompareAndSwapOf<uint64_t>::In>(space, address.is_32bit)
                                      : nullptr;
    if (run == nullptr || access.vector != 1) return l.Unknown();
    const uint32_t compare = l.Source(at + 1, t), value = l.Source(at + 2, t);
    const uint32_t d = has_result ? l.Destination(0, t) : kNoSlot;
    Inst& inst = l.Emit(run);
    inst.dst = d;
    inst.src[0] = address.slot;
    inst.src[1] = compare;
    inst.src[2] = value;
    inst.imm = static_cast<uint64_t>(address.offset);
    return;
  }
  const Handler run = PickOperation(l, t, space, address.is_32bit);
  if (run == nullptr) return l.Unknown();
  // A vector is so many independent operations on neighbouring elements.
  const Operand& values = l.operand(at + 1);
  for (uint32_t i = 0; i < access.vector && !l.failed(); ++i) {
    const bool vector = access.vector > 1;
    if (vector && values.elements.size() != access.vector) return l.Unknown();
    const uint32_t value = l.Source(vector ? values.elements[i] : values, t);
    uint32_t d = kNoSlot;
    if (has_result) {
      const Operand& result = l.operand(0);
      if (vector && result.elements.size() != access.vector) return l.Unknown();
      d = l.Destination(vector ? result.elements[i] : result, t);
    }
    Inst& inst = l.Emit(run);
    inst.dst = d;
    inst.src[0] = address.slot;
    inst.src[1] = value;
    inst.imm = static_cast<uint64_t>(address.offset) + i * t.size_bytes;
  }
}
void LowerAtom(Lowering& l) { LowerAtomic(l, true); }
void LowerRed(Lowering& l) { LowerAtomic(l, false); }

void Fence(Warp&, const Inst&, uint32_t) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void LowerFence(Lowering& l) {
  // membar.{cta,gl,sys}, fence.{sc,acq_rel,acquire,release}.scope, fence.proxy.*, fence.mbarrier_init: one strong fence serves
  // all.
  while (!l.TakeFirst().empty()) {
  }
  l.Emit(&Fence);
}

constexpr OpRow kRows[] = {
    {"atom", kAnyType, LowerAtom},
    {"red", kAnyType, LowerRed},
    {"membar", kAnyType, LowerFence},
    {"fence", kAnyType, LowerFence},
};

}  // namespace

std::span<const OpRow> AtomicOps() { return kRows; }

}  // namespace tessera::emulator
