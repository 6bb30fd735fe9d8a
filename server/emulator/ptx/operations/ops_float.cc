// f32 and f64 arithmetic. Source: PTX ISA 9.0, "Floating Point Instructions".
//
// Approximate forms (.approx) are computed at least as exactly as the ISA asks for; their last bits differ from a device's.
#include <numbers>

#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/operations/float_math.h"
#include "server/emulator/ptx/operations/rounding.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

struct Add {
  template <class T>
  static T Run(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T Run(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T Run(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T Run(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <class T>
  static T Run(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Sqrt {
  template <class T>
  static T Run(T a) {
    return std::sqrt(a);
  }
};
struct Rcp {
  template <class T>
  static T Run(T a) {
    return T{1} / a;
  }
};
struct Neg {
  template <class T>
  static T Run(T a) {
    return -a;
  }
};
struct Abs {
  template <class T>
  static T Run(T a) {
    return std::fabs(a);
  }
};
// A NaN loses against a number; -0 is less than +0.
template <class T>
bool Less(T a, T b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
struct Min {
  template <class T>
  static T Run(T a, T b) {
    return a != a ? b : b != b ? a : Less(a, b) ? a : b;
  }
};
struct Max {
  template <class T>
  static T Run(T a, T b) {
    return a != a ? b : b != b ? a : Less(a, b) ? b : a;
  }
};
struct MinNan {
  template <class T>
  static T Run(T a, T b) {
    return a != a || b != b ? CanonicalNan(a) : Min::Run(a, b);
  }
};
struct MaxNan {
  template <class T>
  static T Run(T a, T b) {
    return a != a || b != b ? CanonicalNan(a) : Max::Run(a, b);
  }
};
template <class F>
struct XorSignAbs {
  template <class T>
  static T Run(T a, T b) {
    const T r = std::fabs(F::Run(std::fabs(a), std::fabs(b)));
    return std::signbit(a) != std::signbit(b) ? -r : r;
  }
};
struct Rsqrt {
  template <class T>
  static T Run(T a) {
    return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
  }
};
struct Sin {
  static float Run(float a) { return std::sin(a); }
};
struct Cos {
  static float Run(float a) { return std::cos(a); }
};
struct Lg2 {
  static float Run(float a) { return std::log2(a); }
};
struct Ex2 {
  static float Run(float a) { return std::exp2(a); }
};
struct Tanh {
  static float Run(float a) { return std::tanh(a); }
};

// f64: no modifiers but rounding. NaN operands are passed on, of two the second (div: the first), on a device and here; said
// explicitly because the compiler is free to swap the operands of an addition.
inline double Quiet(double x) { return std::bit_cast<double>(std::bit_cast<uint64_t>(x) | 1ull << 51); }
template <class F>
struct Plain {
  static constexpr bool kFirst = std::is_same_v<F, Div>;
  static double Run(double a) { return F::Run(a); }
  static double Run(double a, double b) {
    const double r = F::Run(a, b);
    const double first = kFirst ? a : b, second = kFirst ? b : a;
    return r == r ? r : first != first ? Quiet(first) : second != second ? Quiet(second) : r;
  }
  static double Run(double a, double b, double c) {
    const double r = F::Run(a, b, c);
    return r == r ? r : b != b ? Quiet(b) : c != c ? Quiet(c) : a != a ? Quiet(a) : r;
  }
};

template <class F, int kCount, bool kFtz, bool kSat>
constexpr Handler Single() {
  using Op = FloatOp<F, kFtz, kSat>;
  if constexpr (kCount == 1)
    return &Unary<Op, float, float>;
  else if constexpr (kCount == 2)
    return &Binary<Op, float, float, float>;
  else
    return &Ternary<Op, float, float, float, float>;
}
template <class F, int kCount>
constexpr Handler Double() {
  if constexpr (kCount == 1)
    return &Unary<Plain<F>, double, double>;
  else if constexpr (kCount == 2)
    return &Binary<Plain<F>, double, double, double>;
  else
    return &Ternary<Plain<F>, double, double, double, double>;
}
template <class F, int kCount>
Handler PickSingle(bool ftz, bool sat, Rounding rounding) {
  if (ftz)
    return sat ? WithRounding<Single<F, kCount, true, true>()>(rounding)
               : WithRounding<Single<F, kCount, true, false>()>(rounding);
  return sat ? WithRounding<Single<F, kCount, false, true>()>(rounding)
             : WithRounding<Single<F, kCount, false, false>()>(rounding);
}
template <int kCount>
void EmitSame(Lowering& l, Handler run, Type t) {
  if constexpr (kCount == 1)
    EmitUnary(l, run, t, t);
  else if constexpr (kCount == 2)
    EmitBinary(l, run, t, t, t);
  else
    EmitTernary(l, run, t, t, t, t);
}

// add, sub, mul, fma: rounding, .ftz, .sat.
template <class F, int kCount>
void LowerRounded(Lowering& l) {
  const Rounding rounding = TakeRounding(l);
  const bool ftz = l.Take("ftz"), sat = l.Take("sat");
  const Type t = l.TakeType();
  if (t == kF32) return EmitSame<kCount>(l, PickSingle<F, kCount>(ftz, sat, rounding), t);
  if (ftz || sat || t != kF64) return l.Unknown();
  EmitSame<kCount>(l, WithRounding<Double<F, kCount>()>(rounding), t);
}
// div, rcp, sqrt: .approx and .full are allowed to be exact.
template <class F, int kCount>
void LowerDivide(Lowering& l) {
  const bool approximate = l.Take("approx") || l.Take("full");
  bool given = false;
  const Rounding rounding = TakeRounding(l, &given);
  const bool ftz = l.Take("ftz");
  const Type t = l.TakeType();
  if (approximate == given) return l.Unknown();
  if (t == kF32) return EmitSame<kCount>(l, PickSingle<F, kCount>(ftz, false, rounding), t);
  if (t != kF64 || (approximate && !ftz)) return l.Unknown();
  // rcp.approx.ftz.f64 flushes subnormals; everything else keeps them.
  EmitSame<kCount>(l, WithRounding<Double<F, kCount>()>(rounding), t);
}
// Functions that exist only as .approx; f32.
template <class F>
void LowerApproximate(Lowering& l) {
  if (!l.Take("approx")) return l.Unknown();
  const bool ftz = l.Take("ftz");
  const Type t = l.TakeType();
  if (t == kF32) return EmitUnary(l, PickSingle<F, 1>(ftz, false, Rounding::kNearest), t, t);
  l.Unknown();
}
void LowerRsqrt(Lowering& l) {
  if (!l.Take("approx")) return l.Unknown();
  const bool ftz = l.Take("ftz");
  const Type t = l.TakeType();
  if (t == kF32) return EmitUnary(l, PickSingle<Rsqrt, 1>(ftz, false, Rounding::kNearest), t, t);
  EmitUnary(l, Double<Rsqrt, 1>(), t, t);
}

struct NegBits {
  static uint32_t Run(uint32_t a) { return (a & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFFFFFu : a ^ 0x80000000u; }
};
struct AbsBits {
  static uint32_t Run(uint32_t a) { return (a & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFFFFFu : a & 0x7FFFFFFFu; }
};
struct NegBits64 {
  static uint64_t Run(uint64_t a) { return a ^ (1ull << 63); }
};
struct AbsBits64 {
  static uint64_t Run(uint64_t a) { return a & ~(1ull << 63); }
};
template <class F, class Bits32, class Bits64>
void LowerSign(Lowering& l) {
  const bool ftz = l.Take("ftz");
  const Type t = l.TakeType();
  if (t == kF32) return EmitUnary(l, ftz ? Single<F, 1, true, false>() : &Unary<Bits32, uint32_t, uint32_t>, t, t);
  EmitUnary(l, &Unary<Bits64, uint64_t, uint64_t>, t, t);
}

template <class F, class FNan>
void LowerMinMax(Lowering& l) {
  const bool ftz = l.Take("ftz"), nan = l.Take("NaN"), xorsign = l.Take("xorsign");
  if (xorsign && !l.Take("abs")) return l.Unknown();
  const Type t = l.TakeType();
  if (t == kF64) return EmitSame<2>(l, Double<F, 2>(), t);
  if (l.count() == 4) {  // three inputs
    if (xorsign) return l.Unknown();
    const Handler run =
        nan ? PickSingle<FNan, 2>(ftz, false, Rounding::kNearest) : PickSingle<F, 2>(ftz, false, Rounding::kNearest);
    const uint32_t a = l.Source(1, t), b = l.Source(2, t), c = l.Source(3, t), d = l.Destination(0, t), between = l.Temporary(4);
    Inst& first = l.Emit(run);
    first.dst = between;
    first.src[0] = a;
    first.src[1] = b;
    Inst& second = l.Emit(run);
    second.dst = d;
    second.src[0] = between;
    second.src[1] = c;
    return;
  }
  Handler run;
  if (xorsign)
    run = nan ? PickSingle<XorSignAbs<FNan>, 2>(ftz, false, Rounding::kNearest)
              : PickSingle<XorSignAbs<F>, 2>(ftz, false, Rounding::kNearest);
  else
    run = nan ? PickSingle<FNan, 2>(ftz, false, Rounding::kNearest) : PickSingle<F, 2>(ftz, false, Rounding::kNearest);
  EmitSame<2>(l, run, t);
}

// copysign d, a, b: the sign of a on b.
struct CopySign32 {
  static uint32_t Run(uint32_t a, uint32_t b) { return (a & 0x80000000u) | (b & 0x7FFFFFFFu); }
};
struct CopySign64 {
  static uint64_t Run(uint64_t a, uint64_t b) { return (a & (1ull << 63)) | (b & ~(1ull << 63)); }
};
void LowerCopySign(Lowering& l) {
  const Type t = l.TakeType();
  EmitBinary(l, t == kF32 ? &Binary<CopySign32, uint32_t, uint32_t, uint32_t> : &Binary<CopySign64, uint64_t, uint64_t, uint64_t>,
             t, t, t);
}

enum TestKind { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <class T, int kKind>
void TestLanes(Warp& w, const Inst& inst, uint32_t mask) {
  const T* a = w.Slot<T>(inst.src[0]);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l) {
    const int c = std::fpclassify(a[l]);
    bool yes = false;
    switch (kKind) {
      case kFinite: yes = c != FP_INFINITE && c != FP_NAN; break;
      case kInfinite: yes = c == FP_INFINITE; break;
      case kNumber: yes = c != FP_NAN; break;
      case kNotANumber: yes = c == FP_NAN; break;
      case kNormal: yes = c == FP_NORMAL || c == FP_ZERO; break;  // zero counts as normal
      case kSubnormal: yes = c == FP_SUBNORMAL; break;
    }
    bits |= static_cast<uint32_t>(yes) << l;
  }
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (bits & mask);
}
template <int kKind>
Handler PickTest(Type t) {
  return t == kF32 ? &TestLanes<float, kKind> : &TestLanes<double, kKind>;
}
void LowerTest(Lowering& l) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  int kind = -1;
  for (int i = 0; i < 6; ++i) {
    if (l.Take(kNames[i])) kind = i;
  }
  const Type t = l.TakeType();
  static constexpr Handler (*kPick[])(Type) = {PickTest<0>, PickTest<1>, PickTest<2>, PickTest<3>, PickTest<4>, PickTest<5>};
  if (kind < 0) return l.Unknown();
  EmitUnary(l, kPick[kind](t), kPred, t);
}

void LowerTanh(Lowering& l) {
  if (!l.Take("approx")) return l.Unknown();
  const Type t = l.TakeType();
  EmitUnary(l, PickSingle<Tanh, 1>(false, false, Rounding::kNearest), t, t);
}

constexpr OpRow kRows[] = {
    {"add", kFloatTypes, LowerRounded<Add, 2>},
    {"sub", kFloatTypes, LowerRounded<Sub, 2>},
    {"mul", kFloatTypes, LowerRounded<Mul, 2>},
    {"fma", kFloatTypes, LowerRounded<Fma, 3>},
    {"mad", kFloatTypes, LowerRounded<Fma, 3>},
    {"div", kFloatTypes, LowerDivide<Div, 2>},
    {"rcp", kFloatTypes, LowerDivide<Rcp, 1>},
    {"sqrt", kFloatTypes, LowerDivide<Sqrt, 1>},
    {"rsqrt", kFloatTypes, LowerRsqrt},
    {"sin", kFloatTypes, LowerApproximate<Sin>},
    {"cos", kFloatTypes, LowerApproximate<Cos>},
    {"lg2", kFloatTypes, LowerApproximate<Lg2>},
    {"ex2", kFloatTypes, LowerApproximate<Ex2>},
    {"neg", kFloatTypes, LowerSign<Neg, NegBits, NegBits64>},
    {"abs", kFloatTypes, LowerSign<Abs, AbsBits, AbsBits64>},
    {"min", kFloatTypes, LowerMinMax<Min, MinNan>},
    {"max", kFloatTypes, LowerMinMax<Max, MaxNan>},
    {"copysign", kFloatTypes, LowerCopySign},
    {"testp", kFloatTypes, LowerTest},
    {"tanh", kFloatTypes, LowerTanh},
};

}  // namespace

std::span<const OpRow> FloatOps() { return kRows; }

}  // namespace tessera::emulator
