// Comparison and selection: setp, set, selp, slct. Source: PTX ISA 9.0, "Comparison and Selection Instructions".
#include "server/emulator/ptx/lower/compare.h"

#include <cmath>

#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/operations/float_math.h"
#include "server/emulator/ptx/run/half.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

struct Eq {
  template <class T>
  static bool Run(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool Run(T a, T b) {
    return (a < b) | (a > b);
  }
};  // false for NaN
struct NeInteger {
  template <class T>
  static bool Run(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <class T>
  static bool Run(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool Run(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool Run(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool Run(T a, T b) {
    return a >= b;
  }
};
struct Equ {
  template <class T>
  static bool Run(T a, T b) {
    return !((a < b) | (a > b));
  }
};
struct Neu {
  template <class T>
  static bool Run(T a, T b) {
    return !(a == b);
  }
};
struct Ltu {
  template <class T>
  static bool Run(T a, T b) {
    return !(a >= b);
  }
};
struct Leu {
  template <class T>
  static bool Run(T a, T b) {
    return !(a > b);
  }
};
struct Gtu {
  template <class T>
  static bool Run(T a, T b) {
    return !(a <= b);
  }
};
struct Geu {
  template <class T>
  static bool Run(T a, T b) {
    return !(a < b);
  }
};
struct Num {
  template <class T>
  static bool Run(T a, T b) {
    return (a == a) & (b == b);
  }
};
struct Nan {
  template <class T>
  static bool Run(T a, T b) {
    return (a != a) | (b != b);
  }
};

template <class T, bool kFtz>
struct Load {
  static T Run(T x) { return x; }
};
template <>
struct Load<float, true> {
  static float Run(float x) { return Flush(x); }
};

template <class C, class T, class Raw, class Read>
uint32_t CompareLanes(Warp& w, const Inst& inst) {
  const Raw* a = w.Slot<Raw>(inst.src[0]);
  const Raw* b = w.Slot<Raw>(inst.src[1]);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l)
    bits |= static_cast<uint32_t>(C::Run(static_cast<T>(Read::Run(a[l])), static_cast<T>(Read::Run(b[l])))) << l;
  return bits;
}

using Comparer = uint32_t (*)(Warp&, const Inst&);
enum Combine : uint8_t { kPlain, kAnd, kOr, kXor };

void Write(Warp& w, uint32_t slot, uint32_t bits, uint32_t mask) {
  uint32_t& d = *w.Slot<uint32_t>(slot);
  d = (d & ~mask) | (bits & mask);
}

// inst: dst and extra[0] the two predicates, src[2] the predicate to combine with, small the combination.
template <Comparer kCompare>
void SetPredicate(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t bits = kCompare(w, inst);
  if (inst.small == kPlain) return Write(w, inst.dst, bits, mask);
  const uint32_t c = *w.Slot<uint32_t>(inst.src[2]);
  const int combine = inst.small & 3;
  const uint32_t p = combine == kAnd ? bits & c : combine == kOr ? bits | c : combine == kXor ? bits ^ c : bits;
  const uint32_t q = combine == kAnd ? ~bits & c : combine == kOr ? ~bits | c : combine == kXor ? ~bits ^ c : ~bits;
  Write(w, inst.dst, p, mask);
  if (inst.small & 4) Write(w, w.Extra(inst)[0], q, mask);
}

// set: all ones or zero, 1.0 or 0.0.
template <class D, Comparer kCompare>
void SetValue(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t bits = kCompare(w, inst);
  const int combine = inst.small & 3;
  if (combine != kPlain) {
    const uint32_t c = *w.Slot<uint32_t>(inst.src[2]);
    bits = combine == kAnd ? bits & c : combine == kOr ? bits | c : bits ^ c;
  }
  D* d = w.Slot<D>(inst.dst);
  const D yes = static_cast<D>(inst.imm);
  ForLanes(mask, [&](uint32_t l) { d[l] = bits >> l & 1 ? yes : D{0}; });
}

struct CompareSet {
  Handler predicate, value16, value32, value64;
};
template <class C, class T, class Raw, class Read>
CompareSet Set() {
  constexpr Comparer kCompare = &CompareLanes<C, T, Raw, Read>;
  return {&SetPredicate<kCompare>, &SetValue<uint16_t, kCompare>, &SetValue<uint32_t, kCompare>, &SetValue<uint64_t, kCompare>};
}

template <class C, bool kFloat>
bool PickType(Type t, bool ftz, CompareSet* set) {
  if (t == kF32) return *set = ftz ? Set<C, float, float, Load<float, true>>() : Set<C, float, float, Load<float, false>>(), true;
  if (t == kF64) return *set = Set<C, double, double, Load<double, false>>(), true;
  if (t == kF16) return *set = Set<C, float, uint16_t, HalfToFloat>(), true;
  if (t == kBf16) return *set = Set<C, float, uint16_t, BrainToFloat>(), true;
  if constexpr (!kFloat) {
    if (t.IsSigned() && t.size_bytes == 2) return *set = Set<C, int16_t, int16_t, Load<int16_t, false>>(), true;
    if (t.IsSigned() && t.size_bytes == 4) return *set = Set<C, int32_t, int32_t, Load<int32_t, false>>(), true;
    if (t.IsSigned() && t.size_bytes == 8) return *set = Set<C, int64_t, int64_t, Load<int64_t, false>>(), true;
    if (t.IsInteger() && t.size_bytes == 2) return *set = Set<C, uint16_t, uint16_t, Load<uint16_t, false>>(), true;
    if (t.IsInteger() && t.size_bytes == 4) return *set = Set<C, uint32_t, uint32_t, Load<uint32_t, false>>(), true;
    if (t.IsInteger() && t.size_bytes == 8) return *set = Set<C, uint64_t, uint64_t, Load<uint64_t, false>>(), true;
  }
  return false;
}

bool PickCompare(Lowering& l, Type t, bool ftz, CompareSet* set) {
  const bool integer = t.IsInteger();
  if (l.Take("eq")) return PickType<Eq, false>(t, ftz, set);
  if (l.Take("ne")) return integer ? PickType<NeInteger, false>(t, ftz, set) : PickType<Ne, true>(t, ftz, set);
  if (l.Take("lt") || (integer && l.Take("lo"))) return PickType<Lt, false>(t, ftz, set);
  if (l.Take("le") || (integer && l.Take("ls"))) return PickType<Le, false>(t, ftz, set);
  if (l.Take("gt") || (integer && l.Take("hi"))) return PickType<Gt, false>(t, ftz, set);
  if (l.Take("ge") || (integer && l.Take("hs"))) return PickType<Ge, false>(t, ftz, set);
  if (l.Take("equ")) return PickType<Equ, true>(t, ftz, set);
  if (l.Take("neu")) return PickType<Neu, true>(t, ftz, set);
  if (l.Take("ltu")) return PickType<Ltu, true>(t, ftz, set);
  if (l.Take("leu")) return PickType<Leu, true>(t, ftz, set);
  if (l.Take("gtu")) return PickType<Gtu, true>(t, ftz, set);
  if (l.Take("geu")) return PickType<Geu, true>(t, ftz, set);
  if (l.Take("num")) return PickType<Num, true>(t, ftz, set);
  if (l.Take("nan")) return PickType<Nan, true>(t, ftz, set);
  return false;
}

Combine TakeCombine(Lowering& l) { return l.Take("and") ? kAnd : l.Take("or") ? kOr : l.Take("xor") ? kXor : kPlain; }

void LowerSetp(Lowering& l) {
  const bool ftz = l.Take("ftz");
  const Combine combine = TakeCombine(l);
  const Type t = l.TakeType();
  if (t.type_class == TypeClass::kPackedHalf || t.type_class == TypeClass::kPackedBrain)
    return LowerSetpPacked(l, t, ftz, combine);
  CompareSet set;
  if (!PickCompare(l, t, ftz, &set)) return l.Unknown();
  const uint32_t a = l.Source(1, t), b = l.Source(2, t);
  const uint32_t c = combine != kPlain ? l.Predicate(3) : kNoSlot;
  const Operand& result = l.operand(0);
  const bool pair = result.kind == Operand::kPair;
  const uint32_t p = l.Destination(pair ? result.elements[0] : result, kPred);
  const uint32_t extra = pair ? l.Extra({l.Destination(result.elements[1], kPred)}) : 0;
  Inst& inst = l.Emit(set.predicate);
  inst.dst = p;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c == kNoSlot ? a : c;
  inst.extra = extra;
  inst.small = static_cast<uint8_t>(combine | (pair ? 4 : 0));
  if (pair && combine == kPlain) inst.small = 4;
}

void LowerSet(Lowering& l) {
  const bool ftz = l.Take("ftz");
  const Combine combine = TakeCombine(l);
  const Type d = l.TakeType(), t = l.TakeType();
  if (t.type_class == TypeClass::kPackedHalf || t.type_class == TypeClass::kPackedBrain)
    return LowerSetPacked(l, d, t, ftz, combine);
  CompareSet set;
  if (!PickCompare(l, t, ftz, &set)) return l.Unknown();
  const uint32_t a = l.Source(1, t), b = l.Source(2, t);
  const uint32_t c = combine != kPlain ? l.Predicate(3) : a;
  const uint32_t result = l.Destination(0, d);
  Inst& inst = l.Emit(d.size_bytes == 2 ? set.value16 : d.size_bytes == 4 ? set.value32 : set.value64);
  inst.dst = result;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.small = combine;
  inst.imm = d == kF32 ? 0x3F800000u : d == kF16 ? 0x3C00u : d == kBf16 ? 0x3F80u : d == kF64 ? 0x3FF0000000000000ull : ~0ull;
}

template <class T>
void Select(Warp& w, const Inst& inst, uint32_t mask) {
  T* d = w.Slot<T>(inst.dst);
  const T* a = w.Slot<T>(inst.src[0]);
  const T* b = w.Slot<T>(inst.src[1]);
  const uint32_t p = *w.Slot<uint32_t>(inst.src[2]);
  ForLanes(mask, [&](uint32_t l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
}
void LowerSelp(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes == 1 || t.size_bytes > 8 || t.IsPredicate()) return l.Unknown();
  const uint32_t a = l.Source(1, t), b = l.Source(2, t), p = l.Predicate(3), d = l.Destination(0, t);
  Inst& inst = l.Emit(t.size_bytes == 2 ? &Select<uint16_t> : t.size_bytes == 4 ? &Select<uint32_t> : &Select<uint64_t>);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = p;
}

template <class T>
struct SlctInteger {
  static T Run(T a, T b, int32_t c) { return c >= 0 ? a : b; }
};
template <class T, bool kFtz>
struct SlctFloat {
  static T Run(T a, T b, float c) { return (kFtz ? Flush(c) : c) >= 0 ? a : b; }
};
template <class T>
Handler PickSlct(bool is_float, bool ftz) {
  if (!is_float) return &Ternary<SlctInteger<T>, T, T, T, int32_t>;
  return ftz ? &Ternary<SlctFloat<T, true>, T, T, T, float> : &Ternary<SlctFloat<T, false>, T, T, T, float>;
}
void LowerSlct(Lowering& l) {
  const bool ftz = l.Take("ftz");
  const Type t = l.TakeType(), c = l.TakeType();
  if (c != kS32 && c != kF32) return l.Unknown();
  const bool f = c == kF32;
  EmitTernary(l,
              t.size_bytes == 2   ? PickSlct<uint16_t>(f, ftz)
              : t.size_bytes == 4 ? PickSlct<uint32_t>(f, ftz)
                                  : PickSlct<uint64_t>(f, ftz),
              t, t, t, c);
}

constexpr OpRow kRows[] = {
    {"setp", kAnyType, LowerSetp},
    {"set", kAnyType, LowerSet},
    {"selp", kAnyType, LowerSelp},
    {"slct", kAnyType, LowerSlct},
};

}  // namespace

std::span<const OpRow> CompareOps() { return kRows; }

}  // namespace tessera::emulator
