// Integer arithmetic. Source: PTX ISA 9.0, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic".
#include <limits>
#include <type_traits>

#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;

template <class T>
struct WideOf;
template <>
struct WideOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WideOf<int16_t> {
  using type = int32_t;
};
template <>
struct WideOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WideOf<int32_t> {
  using type = int64_t;
};
template <>
struct WideOf<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct WideOf<int64_t> {
  using type = __int128;
};
template <class T>
using Wide = typename WideOf<T>::type;

// Arithmetic is done unsigned and wide enough that nothing overflows in the language's sense.
template <class T>
using Calc = std::conditional_t<(sizeof(T) < 4), uint32_t, U<T>>;
template <class T>
struct Add {
  static T Run(T a, T b) { return static_cast<T>(static_cast<Calc<T>>(a) + static_cast<Calc<T>>(b)); }
};
template <class T>
struct Sub {
  static T Run(T a, T b) { return static_cast<T>(static_cast<Calc<T>>(a) - static_cast<Calc<T>>(b)); }
};
template <class T>
struct MulLo {
  static T Run(T a, T b) { return static_cast<T>(static_cast<Calc<T>>(a) * static_cast<Calc<T>>(b)); }
};
template <class T>
struct MulHi {
  static T Run(T a, T b) { return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T))); }
};
template <class T>
struct MulWide {
  static Wide<T> Run(T a, T b) { return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b); }
};
template <class T>
struct MadLo {
  static T Run(T a, T b, T c) { return Add<T>::Run(MulLo<T>::Run(a, b), c); }
};
template <class T>
struct MadHi {
  static T Run(T a, T b, T c) { return Add<T>::Run(MulHi<T>::Run(a, b), c); }
};
template <class T>
struct MadWide {
  static Wide<T> Run(T a, T b, Wide<T> c) { return Add<Wide<T>>::Run(MulWide<T>::Run(a, b), c); }
};
template <class T>
struct Div {
  static T Run(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});  // unspecified by the ISA; devices give all ones
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<Calc<T>>(a));
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T Run(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Min {
  static T Run(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T Run(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct Neg {
  static T Run(T a) { return static_cast<T>(0 - static_cast<Calc<T>>(a)); }
};
template <class T>
struct Abs {
  static T Run(T a) { return a < 0 ? Neg<T>::Run(a) : a; }
};
template <class T>
struct Sad {
  static T Run(T a, T b, T c) { return Add<T>::Run(c, a < b ? Sub<T>::Run(b, a) : Sub<T>::Run(a, b)); }
};
struct AddSat {
  static int32_t Run(int32_t a, int32_t b) {
    const int64_t r = static_cast<int64_t>(a) + b;
    return static_cast<int32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
struct SubSat {
  static int32_t Run(int32_t a, int32_t b) {
    const int64_t r = static_cast<int64_t>(a) - b;
    return static_cast<int32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
struct MadHiSat {
  static int32_t Run(int32_t a, int32_t b, int32_t c) { return AddSat::Run(MulHi<int32_t>::Run(a, b), c); }
};
struct MinRelu {
  static int32_t Run(int32_t a, int32_t b) {
    const int32_t r = a < b ? a : b;
    return r < 0 ? 0 : r;
  }
};
struct MaxRelu {
  static int32_t Run(int32_t a, int32_t b) {
    const int32_t r = a > b ? a : b;
    return r < 0 ? 0 : r;
  }
};
// 24-bit products.
template <class T>
T Low24(T a) {
  return std::is_signed_v<T> ? static_cast<T>(static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8)
                             : static_cast<T>(a & 0xFFFFFF);
}
template <class T>
struct Mul24Lo {
  static T Run(T a, T b) { return static_cast<T>(static_cast<Wide<T>>(Low24(a)) * Low24(b)); }
};
template <class T>
struct Mul24Hi {
  static T Run(T a, T b) { return static_cast<T>((static_cast<Wide<T>>(Low24(a)) * Low24(b)) >> 16); }
};
template <class T>
struct Mad24Lo {
  static T Run(T a, T b, T c) { return Add<T>::Run(Mul24Lo<T>::Run(a, b), c); }
};
template <class T>
struct Mad24Hi {
  static T Run(T a, T b, T c) { return Add<T>::Run(Mul24Hi<T>::Run(a, b), c); }
};

template <template <class> class Op, class T>
Handler Two() {
  return &Binary<Op<T>, T, T, T>;
}
template <template <class> class Op>
Handler PickTwo(Type t) {
  if (t.IsSigned()) return t.size_bytes == 2 ? Two<Op, int16_t>() : t.size_bytes == 4 ? Two<Op, int32_t>() : Two<Op, int64_t>();
  return t.size_bytes == 2 ? Two<Op, uint16_t>() : t.size_bytes == 4 ? Two<Op, uint32_t>() : Two<Op, uint64_t>();
}
template <template <class> class Op, class T>
Handler Three() {
  return &Ternary<Op<T>, T, T, T, T>;
}
template <template <class> class Op>
Handler PickThree(Type t) {
  if (t.IsSigned())
    return t.size_bytes == 2 ? Three<Op, int16_t>() : t.size_bytes == 4 ? Three<Op, int32_t>() : Three<Op, int64_t>();
  return t.size_bytes == 2 ? Three<Op, uint16_t>() : t.size_bytes == 4 ? Three<Op, uint32_t>() : Three<Op, uint64_t>();
}

Type TakeInteger(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes < 2 || t.size_bytes > 8) l.Unknown();
  return t;
}

// Carry flags: one bit per lane, in the first word of the frame.
struct CarryAdd {
  static bool Carry(uint64_t, bool) { return false; }
};
template <class T, bool kSubtract, bool kIn, bool kOut>
void Carry(Warp& w, const Inst& inst, uint32_t mask) {
  T* d = w.Slot<T>(inst.dst);
  const T* a = w.Slot<T>(inst.src[0]);
  const T* b = w.Slot<T>(inst.src[1]);
  uint32_t& flags = *w.Slot<uint32_t>(0);
  ForLanes(mask, [&](uint32_t l) {
    const T carry = kIn ? flags >> l & 1 : 0;
    const unsigned __int128 x = a[l], y = b[l];
    const unsigned __int128 r = kSubtract ? x - y - carry : x + y + carry;
    d[l] = static_cast<T>(r);
    if (kOut) flags = (flags & ~(1u << l)) | (static_cast<uint32_t>(r >> (8 * sizeof(T))) & 1) << l;
  });
}
template <class T, bool kHigh, bool kIn, bool kOut>
void MadCarry(Warp& w, const Inst& inst, uint32_t mask) {
  T* d = w.Slot<T>(inst.dst);
  const T* a = w.Slot<T>(inst.src[0]);
  const T* b = w.Slot<T>(inst.src[1]);
  const T* c = w.Slot<T>(inst.src[2]);
  uint32_t& flags = *w.Slot<uint32_t>(0);
  ForLanes(mask, [&](uint32_t l) {
    const U<T> carry = kIn ? flags >> l & 1 : 0;
    const T product = kHigh ? MulHi<T>::Run(a[l], b[l]) : MulLo<T>::Run(a[l], b[l]);
    const unsigned __int128 r = static_cast<unsigned __int128>(static_cast<U<T>>(product)) + static_cast<U<T>>(c[l]) + carry;
    d[l] = static_cast<T>(r);
    if (kOut) flags = (flags & ~(1u << l)) | (static_cast<uint32_t>(r >> (8 * sizeof(T))) & 1) << l;
  });
}

template <bool kSubtract>
void LowerCarry(Lowering& l, bool in) {
  const bool out = l.Take("cc");
  const Type t = TakeInteger(l);
  if (t.size_bytes < 4) return l.Unknown();
  Handler run;
  if (t.size_bytes == 4)
    run = in ? (out ? &Carry<uint32_t, kSubtract, true, true> : &Carry<uint32_t, kSubtract, true, false>)
             : &Carry<uint32_t, kSubtract, false, true>;
  else
    run = in ? (out ? &Carry<uint64_t, kSubtract, true, true> : &Carry<uint64_t, kSubtract, true, false>)
             : &Carry<uint64_t, kSubtract, false, true>;
  EmitBinary(l, run, t, t, t);
}

void LowerAdd(Lowering& l) {
  if (l.Peek("cc")) return LowerCarry<false>(l, false);
  const bool sat = l.Take("sat");
  const Type t = TakeInteger(l);
  if (sat && t != kS32) return l.Unknown();
  EmitBinary(l, sat ? &Binary<AddSat, int32_t, int32_t, int32_t> : PickTwo<Add>(t), t, t, t);
}
void LowerSub(Lowering& l) {
  if (l.Peek("cc")) return LowerCarry<true>(l, false);
  const bool sat = l.Take("sat");
  const Type t = TakeInteger(l);
  if (sat && t != kS32) return l.Unknown();
  EmitBinary(l, sat ? &Binary<SubSat, int32_t, int32_t, int32_t> : PickTwo<Sub>(t), t, t, t);
}
void LowerAddc(Lowering& l) { LowerCarry<false>(l, true); }
void LowerSubc(Lowering& l) { LowerCarry<true>(l, true); }

void LowerMul(Lowering& l) {
  const bool lo = l.Take("lo"), hi = l.Take("hi"), wide = l.Take("wide");
  const Type t = TakeInteger(l);
  if (lo + hi + wide != 1) return l.Unknown();
  if (!wide) return EmitBinary(l, hi ? PickTwo<MulHi>(t) : PickTwo<MulLo>(t), t, t, t);
  if (t.size_bytes > 4) return l.Unknown();
  const Type d{t.type_class, static_cast<uint8_t>(t.size_bytes * 2)};
  Handler run = t == kS32   ? static_cast<Handler>(&Binary<MulWide<int32_t>, int64_t, int32_t, int32_t>)
                : t == kU32 ? static_cast<Handler>(&Binary<MulWide<uint32_t>, uint64_t, uint32_t, uint32_t>)
                : t == kS16 ? static_cast<Handler>(&Binary<MulWide<int16_t>, int32_t, int16_t, int16_t>)
                            : static_cast<Handler>(&Binary<MulWide<uint16_t>, uint32_t, uint16_t, uint16_t>);
  EmitBinary(l, run, d, t, t);
}

template <class T, bool kIn, bool kOut>
Handler PickMadCarry(bool hi) {
  return hi ? &MadCarry<T, true, kIn, kOut> : &MadCarry<T, false, kIn, kOut>;
}
template <class T>
Handler PickMadCarry(bool hi, bool in, bool out) {
  return in ? (out ? PickMadCarry<T, true, true>(hi) : PickMadCarry<T, true, false>(hi)) : PickMadCarry<T, false, true>(hi);
}
void LowerMadCarry(Lowering& l, bool in) {
  const bool out = l.Take("cc"), hi = l.Take("hi"), lo = l.Take("lo");
  const Type t = TakeInteger(l);
  if (hi + lo != 1 || t.size_bytes < 4) return l.Unknown();
  Handler run = t.size_bytes == 4 ? (t.IsSigned() ? PickMadCarry<int32_t>(hi, in, out) : PickMadCarry<uint32_t>(hi, in, out))
                                  : (t.IsSigned() ? PickMadCarry<int64_t>(hi, in, out) : PickMadCarry<uint64_t>(hi, in, out));
  EmitTernary(l, run, t, t, t, t);
}
void LowerMadc(Lowering& l) { LowerMadCarry(l, true); }

void LowerMad(Lowering& l) {
  if (l.Peek("cc")) return LowerMadCarry(l, false);
  const bool lo = l.Take("lo"), hi = l.Take("hi"), wide = l.Take("wide"), sat = l.Take("sat");
  const Type t = TakeInteger(l);
  if (lo + hi + wide != 1 || (sat && (!hi || t != kS32))) return l.Unknown();
  if (sat) return EmitTernary(l, &Ternary<MadHiSat, int32_t, int32_t, int32_t, int32_t>, t, t, t, t);
  if (!wide) return EmitTernary(l, hi ? PickThree<MadHi>(t) : PickThree<MadLo>(t), t, t, t, t);
  if (t.size_bytes > 4) return l.Unknown();
  const Type d{t.type_class, static_cast<uint8_t>(t.size_bytes * 2)};
  Handler run = t == kS32   ? static_cast<Handler>(&Ternary<MadWide<int32_t>, int64_t, int32_t, int32_t, int64_t>)
                : t == kU32 ? static_cast<Handler>(&Ternary<MadWide<uint32_t>, uint64_t, uint32_t, uint32_t, uint64_t>)
                : t == kS16 ? static_cast<Handler>(&Ternary<MadWide<int16_t>, int32_t, int16_t, int16_t, int32_t>)
                            : static_cast<Handler>(&Ternary<MadWide<uint16_t>, uint32_t, uint16_t, uint16_t, uint32_t>);
  EmitTernary(l, run, d, t, t, d);
}

template <template <class> class Op>
void LowerTwo(Lowering& l) {
  const Type t = TakeInteger(l);
  EmitBinary(l, PickTwo<Op>(t), t, t, t);
}
template <template <class> class Op, class Relu>
void LowerMinMax(Lowering& l) {
  const bool relu = l.Take("relu");
  const Type t = TakeInteger(l);
  if (relu && t != kS32) return l.Unknown();
  EmitBinary(l, relu ? &Binary<Relu, int32_t, int32_t, int32_t> : PickTwo<Op>(t), t, t, t);
}
void LowerSad(Lowering& l) {
  const Type t = TakeInteger(l);
  EmitTernary(l, PickThree<Sad>(t), t, t, t, t);
}
template <template <class> class Op>
void LowerSigned(Lowering& l) {
  const Type t = TakeInteger(l);
  if (!t.IsSigned()) return l.Unknown();
  EmitUnary(l,
            t.size_bytes == 2   ? static_cast<Handler>(&Unary<Op<int16_t>, int16_t, int16_t>)
            : t.size_bytes == 4 ? &Unary<Op<int32_t>, int32_t, int32_t>
                                : &Unary<Op<int64_t>, int64_t, int64_t>,
            t, t);
}
void LowerMul24(Lowering& l) {
  const bool hi = l.Take("hi"), lo = l.Take("lo");
  const Type t = TakeInteger(l);
  if (hi + lo != 1 || t.size_bytes != 4) return l.Unknown();
  if (t.IsSigned()) return EmitBinary(l, hi ? Two<Mul24Hi, int32_t>() : Two<Mul24Lo, int32_t>(), t, t, t);
  EmitBinary(l, hi ? Two<Mul24Hi, uint32_t>() : Two<Mul24Lo, uint32_t>(), t, t, t);
}
void LowerMad24(Lowering& l) {
  const bool hi = l.Take("hi"), lo = l.Take("lo");
  const Type t = TakeInteger(l);
  if (hi + lo != 1 || t.size_bytes != 4) return l.Unknown();
  if (t.IsSigned()) return EmitTernary(l, hi ? Three<Mad24Hi, int32_t>() : Three<Mad24Lo, int32_t>(), t, t, t, t);
  EmitTernary(l, hi ? Three<Mad24Hi, uint32_t>() : Three<Mad24Lo, uint32_t>(), t, t, t, t);
}

// Dot products of bytes. dp2a takes the low or high half of b.
template <bool kSignedA, bool kSignedB>
int32_t Product(uint32_t a, uint32_t b) {
  const int32_t x = kSignedA ? static_cast<int8_t>(a) : static_cast<uint8_t>(a);
  const int32_t y = kSignedB ? static_cast<int8_t>(b) : static_cast<uint8_t>(b);
  return x * y;
}
template <bool kSignedA, bool kSignedB>
struct Dp4a {
  static uint32_t Run(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) c += static_cast<uint32_t>(Product<kSignedA, kSignedB>(a >> 8 * i, b >> 8 * i));
    return c;
  }
};
template <bool kSignedA, bool kSignedB, bool kHigh>
struct Dp2a {
  static uint32_t Run(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i) {
      const int32_t x = kSignedA ? static_cast<int16_t>(a >> 16 * i) : static_cast<uint16_t>(a >> 16 * i);
      const uint32_t byte = b >> (8 * i + (kHigh ? 16 : 0));
      const int32_t y = kSignedB ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
      c += static_cast<uint32_t>(x) * static_cast<uint32_t>(y);
    }
    return c;
  }
};
void LowerDp4a(Lowering& l) {
  const bool a = l.TakeType().IsSigned(), b = l.TakeType().IsSigned();
  using W = uint32_t;
  EmitTernary(l,
              a ? (b ? &Ternary<Dp4a<true, true>, W, W, W, W> : &Ternary<Dp4a<true, false>, W, W, W, W>)
                : (b ? &Ternary<Dp4a<false, true>, W, W, W, W> : &Ternary<Dp4a<false, false>, W, W, W, W>),
              kB32, kB32, kB32, kB32);
}
template <bool kHigh>
Handler PickDp2a(bool a, bool b) {
  using W = uint32_t;
  return a ? (b ? &Ternary<Dp2a<true, true, kHigh>, W, W, W, W> : &Ternary<Dp2a<true, false, kHigh>, W, W, W, W>)
           : (b ? &Ternary<Dp2a<false, true, kHigh>, W, W, W, W> : &Ternary<Dp2a<false, false, kHigh>, W, W, W, W>);
}
void LowerDp2a(Lowering& l) {
  const bool hi = l.Take("hi"), lo = l.Take("lo");
  if (hi + lo != 1) return l.Unknown();
  const bool a = l.TakeType().IsSigned(), b = l.TakeType().IsSigned();
  EmitTernary(l, hi ? PickDp2a<true>(a, b) : PickDp2a<false>(a, b), kB32, kB32, kB32, kB32);
}

// Packed pairs of 16-bit integers.
template <template <class> class Op, class T>
struct Pair {
  static uint32_t Run(uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(Op<T>::Run(static_cast<T>(a), static_cast<T>(b)));
    const auto high = static_cast<uint16_t>(Op<T>::Run(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | static_cast<uint32_t>(high) << 16;
  }
};
template <template <class> class Op>
void LowerPair(Lowering& l) {
  const Type t = l.TakeType();
  using W = uint32_t;
  EmitBinary(l, t == kS16x2 ? &Binary<Pair<Op, int16_t>, W, W, W> : &Binary<Pair<Op, uint16_t>, W, W, W>, kB32, kB32, kB32);
}

constexpr OpRow kRows[] = {
    {"add", kIntegerTypes, LowerAdd},
    {"sub", kIntegerTypes, LowerSub},
    {"addc", kIntegerTypes, LowerAddc},
    {"subc", kIntegerTypes, LowerSubc},
    {"mul", kIntegerTypes, LowerMul},
    {"mad", kIntegerTypes, LowerMad},
    {"madc", kIntegerTypes, LowerMadc},
    {"mul24", kIntegerTypes, LowerMul24},
    {"mad24", kIntegerTypes, LowerMad24},
    {"div", kIntegerTypes, LowerTwo<Div>},
    {"rem", kIntegerTypes, LowerTwo<Rem>},
    {"min", kIntegerTypes, LowerMinMax<Min, MinRelu>},
    {"max", kIntegerTypes, LowerMinMax<Max, MaxRelu>},
    {"neg", kIntegerTypes, LowerSigned<Neg>},
    {"abs", kIntegerTypes, LowerSigned<Abs>},
    {"sad", kIntegerTypes, LowerSad},
    {"dp4a", kIntegerTypes, LowerDp4a},
    {"dp2a", kIntegerTypes, LowerDp2a},
    {"add", kPackedIntegerTypes, LowerPair<Add>},
    {"sub", kPackedIntegerTypes, LowerPair<Sub>},
    {"min", kPackedIntegerTypes, LowerPair<Min>},
    {"max", kPackedIntegerTypes, LowerPair<Max>},
};

}  // namespace

std::span<const OpRow> IntegerOps() { return kRows; }

}  // namespace tessera::emulator
