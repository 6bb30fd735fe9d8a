// f16, bf16 and their packed pairs. Source: PTX ISA 9.0, "Half Precision Floating Point Instructions".
//
// Sums are computed in f32, whose 24 bits make the second rounding harmless (Figueroa 1995, "When is
// double rounding innocuous?"); fma goes through OddFma.
#include "server/emulator/ptx/lower/compare.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/operations/float_math.h"
#include "server/emulator/ptx/run/half.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

struct F16 {
  static constexpr uint16_t kSmallestNormal = 0x0400, kOne = 0x3C00, kExponent = 0x7C00;
  static float Load(uint16_t x) { return HalfToFloat::Run(x); }
  static uint16_t Store(float x) { return FloatToHalf(x); }
};
struct Bf16 {
  static constexpr uint16_t kSmallestNormal = 0x0080, kOne = 0x3F80, kExponent = 0x7F80;
  static float Load(uint16_t x) { return BrainToFloat::Run(x); }
  static uint16_t Store(float x) { return FloatToBrain(x); }
};

template <class T>
bool IsNan(uint16_t x) {
  return (x & 0x7FFF) > T::kExponent;
}
template <class T>
uint16_t FlushHalf(uint16_t x) {
  return (x & 0x7FFF) < T::kSmallestNormal ? x & 0x8000 : x;
}

struct Add {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return T::Store(T::Load(a) + T::Load(b));
  }
};
struct Sub {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return T::Store(T::Load(a) - T::Load(b));
  }
};
// A product may underflow even f32 (bf16 has its exponents): it is exact in double, then rounded once.
struct Mul {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return T::Store(OddFloat(static_cast<double>(T::Load(a)) * static_cast<double>(T::Load(b))));
  }
};
struct Fma {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b, uint16_t c) {
    return T::Store(OddFloat(OddFma(T::Load(a), T::Load(b), T::Load(c))));
  }
};
struct Neg {
  template <class T>
  static uint16_t Run(uint16_t a) {
    return IsNan<T>(a) ? 0x7FFF : a ^ 0x8000;
  }
};
struct Abs {
  template <class T>
  static uint16_t Run(uint16_t a) {
    return IsNan<T>(a) ? 0x7FFF : a & 0x7FFF;
  }
};
struct Ex2 {
  template <class T>
  static uint16_t Run(uint16_t a) {
    return T::Store(std::exp2(T::Load(a)));
  }
};
struct Tanh {
  template <class T>
  static uint16_t Run(uint16_t a) {
    return T::Store(std::tanh(T::Load(a)));
  }
};
// In the order of the bits once negative numbers are mirrored: -0 below +0.
inline int32_t OrderKey(uint16_t x) { return x & 0x8000 ? -static_cast<int32_t>(x & 0x7FFF) - 1 : x; }
struct Min {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return IsNan<T>(a) ? (IsNan<T>(b) ? 0x7FFF : b) : IsNan<T>(b) ? a : OrderKey(a) < OrderKey(b) ? a : b;
  }
};
struct Max {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return IsNan<T>(a) ? (IsNan<T>(b) ? 0x7FFF : b) : IsNan<T>(b) ? a : OrderKey(a) < OrderKey(b) ? b : a;
  }
};
template <class F>
struct OrNan {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    return IsNan<T>(a) || IsNan<T>(b) ? 0x7FFF : F::template Run<T>(a, b);
  }
};
template <class F>
struct XorSign {
  template <class T>
  static uint16_t Run(uint16_t a, uint16_t b) {
    const uint16_t r = F::template Run<T>(a & 0x7FFF, b & 0x7FFF);
    return IsNan<T>(r) ? r : static_cast<uint16_t>((r & 0x7FFF) | ((a ^ b) & 0x8000));
  }
};

enum Flag : uint8_t { kFtz = 1, kSat = 2, kRelu = 4 };
template <class T>
uint16_t Finish(uint16_t r, uint8_t flags) {
  if (flags & kFtz) r = FlushHalf<T>(r);
  if (flags & kSat) r = IsNan<T>(r) || (r & 0x8000) != 0 ? 0 : r > T::kOne ? T::kOne : r;
  if ((flags & kRelu) != 0 && !IsNan<T>(r) && (r & 0x8000) != 0) r = 0;
  return r;
}

// kPair: both halves of a 32-bit register.
template <class F, class T, bool kPair, int kCount>
void Lanes(Warp& w, const Inst& inst, uint32_t mask) {
  using R = std::conditional_t<kPair, uint32_t, uint16_t>;
  const uint8_t flags = inst.small;
  R* d = w.Slot<R>(inst.dst);
  const R* a = w.Slot<R>(inst.src[0]);
  const R* b = kCount > 1 ? w.Slot<R>(inst.src[1]) : a;
  const R* c = kCount > 2 ? w.Slot<R>(inst.src[2]) : a;
  auto one = [flags](uint16_t x, uint16_t y, uint16_t z) {
    if (flags & kFtz) x = FlushHalf<T>(x), y = FlushHalf<T>(y), z = FlushHalf<T>(z);
    uint16_t r;
    if constexpr (kCount == 1)
      r = F::template Run<T>(x);
    else if constexpr (kCount == 2)
      r = F::template Run<T>(x, y);
    else
      r = F::template Run<T>(x, y, z);
    return Finish<T>(r, flags);
  };
  ForLanes(mask, [&](uint32_t l) {
    const R x = a[l], y = b[l], z = c[l];
    if constexpr (kPair) {
      const uint32_t low = one(static_cast<uint16_t>(x), static_cast<uint16_t>(y), static_cast<uint16_t>(z));
      const uint32_t high = one(static_cast<uint16_t>(x >> 16), static_cast<uint16_t>(y >> 16), static_cast<uint16_t>(z >> 16));
      d[l] = low | high << 16;
    } else {
      d[l] = one(x, y, z);
    }
  });
}

template <class F, int kCount>
Handler Pick(Type t) {
  if (t == kF16) return &Lanes<F, F16, false, kCount>;
  if (t == kBf16) return &Lanes<F, Bf16, false, kCount>;
  if (t == kF16x2) return &Lanes<F, F16, true, kCount>;
  return &Lanes<F, Bf16, true, kCount>;
}

uint8_t TakeFlags(Lowering& l) {
  return static_cast<uint8_t>((l.Take("ftz") ? kFtz : 0) | (l.Take("sat") ? kSat : 0) | (l.Take("relu") ? kRelu : 0));
}

template <int kCount>
void EmitHalf(Lowering& l, Handler run, Type t, uint8_t flags) {
  uint32_t sources[3] = {kNoSlot, kNoSlot, kNoSlot};
  for (int i = 0; i < kCount; ++i) sources[i] = l.Source(static_cast<size_t>(i) + 1, t);
  const uint32_t d = l.Destination(0, t);
  Inst& inst = l.Emit(run);
  inst.dst = d;
  for (int i = 0; i < kCount; ++i) inst.src[i] = sources[i];
  inst.small = flags;
}

template <class F, int kCount>
void LowerArithmetic(Lowering& l) {
  l.Take("rn");
  const uint8_t flags = TakeFlags(l);
  const Type t = l.TakeType();
  EmitHalf<kCount>(l, Pick<F, kCount>(t), t, flags);
}
template <class F>
void LowerApproximate(Lowering& l) {
  if (!l.Take("approx")) return l.Unknown();
  // .ftz of ex2 on bf16 means what bf16 does anyway: subnormal inputs give 1.
  const uint8_t flags = TakeFlags(l);
  const Type t = l.TakeType();
  EmitHalf<1>(l, Pick<F, 1>(t), t, flags);
}
template <class F>
void LowerMinMax(Lowering& l) {
  const uint8_t flags = TakeFlags(l);
  const bool nan = l.Take("NaN"), xorsign = l.Take("xorsign");
  if (xorsign && !l.Take("abs")) return l.Unknown();
  const Type t = l.TakeType();
  if (l.count() != 3) return l.Unknown();
  if (xorsign) return EmitHalf<2>(l, nan ? Pick<XorSign<OrNan<F>>, 2>(t) : Pick<XorSign<F>, 2>(t), t, flags);
  EmitHalf<2>(l, nan ? Pick<OrNan<F>, 2>(t) : Pick<F, 2>(t), t, flags);
}

// --- set and setp on pairs ---

using Test = bool (*)(float, float);
Test PickTest(Lowering& l) {
  struct Row {
    std::string_view name;
    Test test;
  };
  static constexpr Row kTests[] = {
      {"eq", [](float a, float b) { return a == b; }},
      {"ne", [](float a, float b) { return a < b || a > b; }},
      {"lt", [](float a, float b) { return a < b; }},
      {"le", [](float a, float b) { return a <= b; }},
      {"gt", [](float a, float b) { return a > b; }},
      {"ge", [](float a, float b) { return a >= b; }},
      {"equ", [](float a, float b) { return !(a < b || a > b); }},
      {"neu", [](float a, float b) { return !(a == b); }},
      {"ltu", [](float a, float b) { return !(a >= b); }},
      {"leu", [](float a, float b) { return !(a > b); }},
      {"gtu", [](float a, float b) { return !(a <= b); }},
      {"geu", [](float a, float b) { return !(a < b); }},
      {"num", [](float a, float b) { return a == a && b == b; }},
      {"nan", [](float a, float b) { return a != a || b != b; }},
  };
  for (const Row& row : kTests) {
    if (l.Take(row.name)) return row.test;
  }
  return nullptr;
}

// imm: the test. Two words of 32 answers: low halves, high halves.
template <class T>
void Compare(Warp& w, const Inst& inst, uint32_t* low, uint32_t* high) {
  const auto test = reinterpret_cast<Test>(inst.imm);
  const uint32_t* a = w.Slot<uint32_t>(inst.src[0]);
  const uint32_t* b = w.Slot<uint32_t>(inst.src[1]);
  *low = *high = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l) {
    auto half = [&](int shift) {
      auto x = static_cast<uint16_t>(a[l] >> shift), y = static_cast<uint16_t>(b[l] >> shift);
      if (inst.small & 8) x = FlushHalf<T>(x), y = FlushHalf<T>(y);
      return static_cast<uint32_t>(test(T::Load(x), T::Load(y)));
    };
    *low |= half(0) << l;
    *high |= half(16) << l;
  }
}
uint32_t Combine(uint32_t bits, uint32_t c, uint8_t how) {
  return how == 1 ? bits & c : how == 2 ? bits | c : how == 3 ? bits ^ c : bits;
}
template <class T>
void SetPredicates(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t low, high;
  Compare<T>(w, inst, &low, &high);
  const uint32_t c = inst.small & 3 ? *w.Slot<uint32_t>(inst.src[2]) : 0;
  uint32_t& p = *w.Slot<uint32_t>(inst.dst);
  p = (p & ~mask) | (Combine(low, c, inst.small & 3) & mask);
  uint32_t& q = *w.Slot<uint32_t>(inst.src[3]);
  q = (q & ~mask) | (Combine(high, c, inst.small & 3) & mask);
}
// small bit 2: the result is numbers (1.0), not bits.
template <class T>
void SetPair(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t low, high;
  Compare<T>(w, inst, &low, &high);
  const uint32_t c = inst.small & 3 ? *w.Slot<uint32_t>(inst.src[2]) : 0;
  low = Combine(low, c, inst.small & 3);
  high = Combine(high, c, inst.small & 3);
  const uint32_t yes = inst.small & 4 ? T::kOne : 0xFFFF;
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) { d[l] = (low >> l & 1 ? yes : 0) | (high >> l & 1 ? yes : 0) << 16; });
}

constexpr OpRow kRows[] = {
    {"add", kHalfTypes, LowerArithmetic<Add, 2>}, {"sub", kHalfTypes, LowerArithmetic<Sub, 2>},
    {"mul", kHalfTypes, LowerArithmetic<Mul, 2>}, {"fma", kHalfTypes, LowerArithmetic<Fma, 3>},
    {"neg", kHalfTypes, LowerArithmetic<Neg, 1>}, {"abs", kHalfTypes, LowerArithmetic<Abs, 1>},
    {"min", kHalfTypes, LowerMinMax<Min>},        {"max", kHalfTypes, LowerMinMax<Max>},
    {"ex2", kHalfTypes, LowerApproximate<Ex2>},   {"tanh", kHalfTypes, LowerApproximate<Tanh>},
};

}  // namespace

void LowerSetpPacked(Lowering& l, Type t, bool ftz, uint8_t combine) {
  const Test test = PickTest(l);
  if (test == nullptr) return l.Unknown();
  const Operand& result = l.operand(0);
  const uint32_t a = l.Source(1, t), b = l.Source(2, t), c = combine != 0 ? l.Predicate(3) : kNoSlot;
  const bool pair = result.kind == Operand::kPair;
  const uint32_t p = l.Destination(pair ? result.elements[0] : result, kPred);
  const uint32_t q = pair ? l.Destination(result.elements[1], kPred) : l.Temporary(4);
  Inst& inst = l.Emit(t == kF16x2 ? &SetPredicates<F16> : &SetPredicates<Bf16>);
  inst.dst = p;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.src[3] = q;
  inst.imm = reinterpret_cast<uint64_t>(test);
  inst.small = static_cast<uint8_t>(combine | (ftz ? 8 : 0));
}

void LowerSetPacked(Lowering& l, Type d, Type t, bool ftz, uint8_t combine) {
  const Test test = PickTest(l);
  if (test == nullptr || d.size_bytes != 4) return l.Unknown();
  const uint32_t a = l.Source(1, t), b = l.Source(2, t), c = combine != 0 ? l.Predicate(3) : kNoSlot,
                 result = l.Destination(0, d);
  Inst& inst = l.Emit(t == kF16x2 ? &SetPair<F16> : &SetPair<Bf16>);
  inst.dst = result;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.imm = reinterpret_cast<uint64_t>(test);
  inst.small = static_cast<uint8_t>(combine | (d.IsInteger() ? 0 : 4) | (ftz ? 8 : 0));
}

std::span<const OpRow> HalfOps() { return kRows; }

}  // namespace tessera::emulator
