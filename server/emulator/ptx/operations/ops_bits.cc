// Logic, shifts and bit manipulation. Source: PTX ISA 9.0, "Logic and Shift Instructions", "Integer Arithmetic Instructions".
#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

template <class T>
struct And {
  static T Run(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T Run(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T Run(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T Run(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T Run(T a) { return a == 0 ? 1 : 0; }
};
// Shift amounts beyond the width are clamped to it.
template <class T>
struct Shl {
  static T Run(T a, uint32_t b) { return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << b); }
};
template <class T>
struct Shr {
  static T Run(T a, uint32_t b) { return b >= 8 * sizeof(T) ? (a < 0 ? static_cast<T>(-1) : T{0}) : static_cast<T>(a >> b); }
};
template <class T>
struct Popc {
  static uint32_t Run(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};
template <class T>
struct Clz {
  static uint32_t Run(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};
template <class T>
struct Brev {
  static T Run(T a) {
    T r = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
  }
};
template <class T>
struct Bfind {
  static uint32_t Run(T a) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto bits = static_cast<Unsigned>(a < 0 ? ~a : a);
    return bits == 0 ? 0xFFFFFFFFu : static_cast<uint32_t>(8 * sizeof(T) - 1 - static_cast<unsigned>(std::countl_zero(bits)));
  }
};
template <class T>
struct BfindShift {
  static uint32_t Run(T a) {
    const uint32_t position = Bfind<T>::Run(a);
    return position == 0xFFFFFFFFu ? position : static_cast<uint32_t>(8 * sizeof(T) - 1) - position;
  }
};
template <class T>
struct Bfe {
  static T Run(T a, uint32_t b, uint32_t c) {
    constexpr uint32_t kTop = 8 * sizeof(T) - 1;
    // Beyond the documented 0..255: the 32-bit form looks at the low byte, the 64-bit form at everything.
    const uint64_t position = sizeof(T) == 4 ? b & 0xFF : b, length = sizeof(T) == 4 ? c & 0xFF : c;
    using Unsigned = std::make_unsigned_t<T>;
    if (length == 0) return 0;
    const uint64_t sign_at = position + length - 1 < kTop ? position + length - 1 : kTop;
    const bool sign = a < 0 || std::is_signed_v<T> ? (std::is_signed_v<T> && (static_cast<Unsigned>(a) >> sign_at & 1)) : false;
    Unsigned r = position > kTop ? 0 : static_cast<Unsigned>(a) >> position;
    const uint64_t there = position > kTop ? 0 : kTop + 1 - position;
    const uint64_t valid = length < there ? length : there;
    const Unsigned keep = valid > kTop ? ~Unsigned{0} : (Unsigned{1} << valid) - 1;
    r &= keep;
    if (sign) {
      // Every bit above what was extracted repeats the sign, up to the width of the result.
      r |= ~keep;
    }
    return static_cast<T>(r);
  }
};
template <class T>
struct Bfi {
  static T Run(T a, T b, uint32_t c, uint32_t d) {
    constexpr uint32_t kWidth = 8 * sizeof(T);
    const uint32_t position = sizeof(T) == 4 ? c & 0xFF : c, length = sizeof(T) == 4 ? d & 0xFF : d;
    if (position >= kWidth || length == 0) return b;
    const T field = length >= kWidth ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(field << position);
    return static_cast<T>((b & ~mask) | (static_cast<T>(a << position) & mask));
  }
};
struct BmskClamp {
  static uint32_t Run(uint32_t a, uint32_t b) {
    if (a >= 32 || b == 0) return 0;
    const uint32_t length = b > 32 - a ? 32 - a : b;
    return static_cast<uint32_t>(((1ull << length) - 1) << a);
  }
};
struct BmskWrap {
  static uint32_t Run(uint32_t a, uint32_t b) { return BmskClamp::Run(a & 31, b & 31); }
};
template <bool kSigned, bool kWrap>
struct Szext {
  static uint32_t Run(uint32_t a, uint32_t b) {
    const uint32_t n = kWrap ? b & 31 : b > 32 ? 32 : b;
    if (n == 0) return 0;
    if (n == 32) return a;
    const uint32_t shift = 32 - n;
    return kSigned ? static_cast<uint32_t>(static_cast<int32_t>(a << shift) >> shift) : a << shift >> shift;
  }
};
struct Prmt {
  static uint32_t Run(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t selector = c >> 4 * i & 15;
      auto byte = static_cast<uint32_t>(bytes >> 8 * (selector & 7) & 0xFF);
      if (selector & 8) byte = byte & 0x80 ? 0xFF : 0;
      r |= byte << 8 * i;
    }
    return r;
  }
};
// The special modes of prmt choose by the two low bits of c.
template <int kMode>
struct PrmtMode {
  static uint32_t Run(uint32_t a, uint32_t b, uint32_t c) {
    static constexpr uint16_t kSelectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                                  {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                                  {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return Prmt::Run(a, b, kSelectors[kMode][c & 3]);
  }
};
template <bool kLeft, bool kWrap>
struct Shf {
  static uint32_t Run(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n);
  }
};

uint32_t Lop3Value(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  if (table & 0x01) r |= ~a & ~b & ~c;
  if (table & 0x02) r |= ~a & ~b & c;
  if (table & 0x04) r |= ~a & b & ~c;
  if (table & 0x08) r |= ~a & b & c;
  if (table & 0x10) r |= a & ~b & ~c;
  if (table & 0x20) r |= a & ~b & c;
  if (table & 0x40) r |= a & b & ~c;
  if (table & 0x80) r |= a & b & c;
  return r;
}
void Lop3(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const uint32_t* a = w.Slot<uint32_t>(inst.src[0]);
  const uint32_t* b = w.Slot<uint32_t>(inst.src[1]);
  const uint32_t* c = w.Slot<uint32_t>(inst.src[2]);
  const uint32_t table = inst.small;
  ForLanes(mask, [&](uint32_t l) { d[l] = Lop3Value(a[l], b[l], c[l], table); });
}
// lop3.or/and: also a predicate "result is not zero" combined with q.
template <bool kAnd>
void Lop3Predicate(Warp& w, const Inst& inst, uint32_t mask) {
  Lop3(w, inst, mask);
  const uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const uint32_t q = *w.Slot<uint32_t>(inst.src[3]);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLaneCount; ++l) bits |= static_cast<uint32_t>(d[l] != 0) << l;
  bits = kAnd ? bits & q : bits | q;
  uint32_t& p = *w.Slot<uint32_t>(w.Extra(inst)[0]);
  p = (p & ~mask) | (bits & mask);
}

template <class T>
void BfiLanes(Warp& w, const Inst& inst, uint32_t mask) {
  T* d = w.Slot<T>(inst.dst);
  const T* a = w.Slot<T>(inst.src[0]);
  const T* b = w.Slot<T>(inst.src[1]);
  const uint32_t* c = w.Slot<uint32_t>(inst.src[2]);
  const uint32_t* e = w.Slot<uint32_t>(inst.src[3]);
  ForLanes(mask, [&](uint32_t l) { d[l] = Bfi<T>::Run(a[l], b[l], c[l], e[l]); });
}

struct Fns {
  static uint32_t Run(uint32_t mask, uint32_t base, int32_t offset) {
    if (base > 31) return 0xFFFFFFFFu;
    if (offset == 0) return mask >> base & 1 ? base : 0xFFFFFFFFu;
    const int step = offset > 0 ? 1 : -1;
    int32_t left = offset > 0 ? offset : -static_cast<int64_t>(offset) > 32 ? 33 : -offset;
    for (auto i = static_cast<int32_t>(base); i >= 0 && i < 32; i += step) {
      if ((mask >> i & 1) != 0 && --left == 0) return static_cast<uint32_t>(i);
    }
    return 0xFFFFFFFFu;
  }
};

// Predicates are words of 32 bits, one per lane.
template <template <class> class Op>
void PredicateTwo(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t r = Op<uint32_t>::Run(*w.Slot<uint32_t>(inst.src[0]), *w.Slot<uint32_t>(inst.src[1]));
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (r & mask);
}
void PredicateNot(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (~*w.Slot<uint32_t>(inst.src[0]) & mask);
}

template <template <class> class Op>
void LowerLogic(Lowering& l) {
  const Type t = l.TakeType();
  Handler run = t.IsPredicate()     ? static_cast<Handler>(&PredicateTwo<Op>)
                : t.size_bytes == 2 ? static_cast<Handler>(&Binary<Op<uint16_t>, uint16_t, uint16_t, uint16_t>)
                : t.size_bytes == 4 ? static_cast<Handler>(&Binary<Op<uint32_t>, uint32_t, uint32_t, uint32_t>)
                                    : static_cast<Handler>(&Binary<Op<uint64_t>, uint64_t, uint64_t, uint64_t>);
  if (t.size_bytes == 1 || t.size_bytes > 8) return l.Unknown();
  EmitBinary(l, run, t, t, t);
}
template <template <class> class Op>
void LowerComplement(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes == 1 || t.size_bytes > 8) return l.Unknown();
  Handler run = t.size_bytes == 2   ? static_cast<Handler>(&Unary<Op<uint16_t>, uint16_t, uint16_t>)
                : t.size_bytes == 4 ? static_cast<Handler>(&Unary<Op<uint32_t>, uint32_t, uint32_t>)
                                    : static_cast<Handler>(&Unary<Op<uint64_t>, uint64_t, uint64_t>);
  EmitUnary(l, run, t, t);
}
void LowerNotPredicate(Lowering& l) {
  const Type t = l.TakeType();
  EmitUnary(l, &PredicateNot, t, t);
}
void LowerShl(Lowering& l) {
  const Type t = l.TakeType();
  Handler run = t.size_bytes == 2   ? static_cast<Handler>(&Binary<Shl<uint16_t>, uint16_t, uint16_t, uint32_t>)
                : t.size_bytes == 4 ? static_cast<Handler>(&Binary<Shl<uint32_t>, uint32_t, uint32_t, uint32_t>)
                                    : static_cast<Handler>(&Binary<Shl<uint64_t>, uint64_t, uint64_t, uint32_t>);
  if (t.size_bytes == 1 || t.size_bytes > 8) return l.Unknown();
  EmitBinary(l, run, t, t, kU32);
}
template <class T>
Handler ShrOf() {
  return &Binary<Shr<T>, T, T, uint32_t>;
}
void LowerShr(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes == 1 || t.size_bytes > 8) return l.Unknown();
  Handler run = t.IsSigned() ? (t.size_bytes == 2   ? ShrOf<int16_t>()
                                : t.size_bytes == 4 ? ShrOf<int32_t>()
                                                    : ShrOf<int64_t>())
                             : (t.size_bytes == 2   ? ShrOf<uint16_t>()
                                : t.size_bytes == 4 ? ShrOf<uint32_t>()
                                                    : ShrOf<uint64_t>());
  EmitBinary(l, run, t, t, kU32);
}
template <template <class> class Op>
void LowerCount(Lowering& l) {  // a 32-bit result whatever the operand
  const Type t = l.TakeType();
  if (t.size_bytes < 4 || t.size_bytes > 8) return l.Unknown();
  EmitUnary(l, t.size_bytes == 4 ? &Unary<Op<uint32_t>, uint32_t, uint32_t> : &Unary<Op<uint64_t>, uint32_t, uint64_t>, kU32, t);
}
void LowerBrev(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes < 4 || t.size_bytes > 8) return l.Unknown();
  EmitUnary(l, t.size_bytes == 4 ? &Unary<Brev<uint32_t>, uint32_t, uint32_t> : &Unary<Brev<uint64_t>, uint64_t, uint64_t>, t, t);
}
template <template <class> class Op>
Handler PickFind(Type t) {
  if (t.IsSigned()) return t.size_bytes == 4 ? &Unary<Op<int32_t>, uint32_t, int32_t> : &Unary<Op<int64_t>, uint32_t, int64_t>;
  return t.size_bytes == 4 ? &Unary<Op<uint32_t>, uint32_t, uint32_t> : &Unary<Op<uint64_t>, uint32_t, uint64_t>;
}
void LowerBfind(Lowering& l) {
  const bool shift = l.Take("shiftamt");
  const Type t = l.TakeType();
  if (t.size_bytes < 4 || t.size_bytes > 8) return l.Unknown();
  EmitUnary(l, shift ? PickFind<BfindShift>(t) : PickFind<Bfind>(t), kU32, t);
}
template <class T>
Handler BfeOf() {
  return &Ternary<Bfe<T>, T, T, uint32_t, uint32_t>;
}
void LowerBfe(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes < 4 || t.size_bytes > 8) return l.Unknown();
  EmitTernary(l,
              t.IsSigned() ? (t.size_bytes == 4 ? BfeOf<int32_t>() : BfeOf<int64_t>())
                           : (t.size_bytes == 4 ? BfeOf<uint32_t>() : BfeOf<uint64_t>()),
              t, t, kU32, kU32);
}
void LowerBfi(Lowering& l) {
  const Type t = l.TakeType();
  if (t.size_bytes < 4 || t.size_bytes > 8) return l.Unknown();
  const uint32_t a = l.Source(1, t), b = l.Source(2, t), c = l.Source(3, kU32), e = l.Source(4, kU32), d = l.Destination(0, t);
  Inst& inst = l.Emit(t.size_bytes == 4 ? &BfiLanes<uint32_t> : &BfiLanes<uint64_t>);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.src[3] = e;
}
void LowerBmsk(Lowering& l) {
  const bool wrap = l.Take("wrap");
  if (!wrap) l.Take("clamp");
  l.TakeType();
  using W = uint32_t;
  EmitBinary(l, wrap ? &Binary<BmskWrap, W, W, W> : &Binary<BmskClamp, W, W, W>, kB32, kB32, kB32);
}
void LowerSzext(Lowering& l) {
  const bool wrap = l.Take("wrap");
  if (!wrap) l.Take("clamp");
  const bool is_signed = l.TakeType().IsSigned();
  using W = uint32_t;
  EmitBinary(l,
             is_signed ? (wrap ? &Binary<Szext<true, true>, W, W, W> : &Binary<Szext<true, false>, W, W, W>)
                       : (wrap ? &Binary<Szext<false, true>, W, W, W> : &Binary<Szext<false, false>, W, W, W>),
             kB32, kB32, kB32);
}
void LowerPrmt(Lowering& l) {
  l.TakeType();
  using W = uint32_t;
  Handler run = &Ternary<Prmt, W, W, W, W>;
  if (l.Take("f4e"))
    run = &Ternary<PrmtMode<0>, W, W, W, W>;
  else if (l.Take("b4e"))
    run = &Ternary<PrmtMode<1>, W, W, W, W>;
  else if (l.Take("rc8"))
    run = &Ternary<PrmtMode<2>, W, W, W, W>;
  else if (l.Take("ecl"))
    run = &Ternary<PrmtMode<3>, W, W, W, W>;
  else if (l.Take("ecr"))
    run = &Ternary<PrmtMode<4>, W, W, W, W>;
  else if (l.Take("rc16"))
    run = &Ternary<PrmtMode<5>, W, W, W, W>;
  EmitTernary(l, run, kB32, kB32, kB32, kB32);
}
void LowerShf(Lowering& l) {
  const bool left = l.Take("l"), right = l.Take("r"), wrap = l.Take("wrap"), clamp = l.Take("clamp");
  l.TakeType();
  if (left + right != 1 || wrap + clamp != 1) return l.Unknown();
  using W = uint32_t;
  EmitTernary(l,
              left ? (wrap ? &Ternary<Shf<true, true>, W, W, W, W> : &Ternary<Shf<true, false>, W, W, W, W>)
                   : (wrap ? &Ternary<Shf<false, true>, W, W, W, W> : &Ternary<Shf<false, false>, W, W, W, W>),
              kB32, kB32, kB32, kB32);
}
void LowerLop3(Lowering& l) {
  const bool is_or = l.Take("or"), is_and = l.Take("and");
  l.TakeType();
  const Operand& result = l.operand(0);
  const bool pair = result.kind == Operand::kPair;
  const uint32_t a = l.Source(1, kB32), b = l.Source(2, kB32), c = l.Source(3, kB32);
  const Operand& table = l.operand(4);
  if (table.kind != Operand::kInteger || pair != (is_or || is_and)) return l.Unknown();
  const uint32_t q = pair ? l.Predicate(5) : kNoSlot;
  const uint32_t d = l.Destination(pair ? result.elements[0] : result, kB32);
  const uint32_t p = pair ? l.Destination(result.elements[1], kPred) : 0;
  const uint32_t extra = pair ? l.Extra({p}) : 0;
  Inst& inst = l.Emit(!pair ? &Lop3 : is_and ? &Lop3Predicate<true> : &Lop3Predicate<false>);
  inst.dst = d;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.src[2] = c;
  inst.src[3] = q;
  inst.extra = extra;
  inst.small = static_cast<uint8_t>(table.bits);
}
void LowerFns(Lowering& l) {
  l.TakeType();
  EmitTernary(l, &Ternary<Fns, uint32_t, uint32_t, uint32_t, int32_t>, kB32, kB32, kB32, kS32);
}

constexpr OpRow kRows[] = {
    {"and", kAnyType, LowerLogic<And>},
    {"or", kAnyType, LowerLogic<Or>},
    {"xor", kAnyType, LowerLogic<Xor>},
    {"not", kPredicateTypes, LowerNotPredicate},
    {"not", kIntegerTypes, LowerComplement<Not>},
    {"cnot", kIntegerTypes, LowerComplement<Cnot>},
    {"shl", kIntegerTypes, LowerShl},
    {"shr", kIntegerTypes, LowerShr},
    {"popc", kIntegerTypes, LowerCount<Popc>},
    {"clz", kIntegerTypes, LowerCount<Clz>},
    {"brev", kIntegerTypes, LowerBrev},
    {"bfind", kIntegerTypes, LowerBfind},
    {"bfe", kIntegerTypes, LowerBfe},
    {"bfi", kIntegerTypes, LowerBfi},
    {"bmsk", kIntegerTypes, LowerBmsk},
    {"szext", kIntegerTypes, LowerSzext},
    {"prmt", kIntegerTypes, LowerPrmt},
    {"shf", kIntegerTypes, LowerShf},
    {"lop3", kIntegerTypes, LowerLop3},
    {"fns", kIntegerTypes, LowerFns},
};

}  // namespace

std::span<const OpRow> BitOps() { return kRows; }

}  // namespace tessera::emulator
