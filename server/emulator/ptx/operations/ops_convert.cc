// cvt. Source: PTX ISA 9.0, "Data Movement and Conversion Instructions: cvt".
#include <cmath>
#include <limits>
#include <type_traits>

#include "server/emulator/ptx/lower/emit.h"
#include "server/emulator/ptx/lower/half_ops.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/operations/float_math.h"
#include "server/emulator/ptx/operations/rounding.h"
#include "server/emulator/ptx/run/half.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;
template <class T>
constexpr bool kIsReal = std::is_floating_point_v<T> || kIsHalf<T>;

// Flags of one cvt, in Inst::small.
enum Flag : uint8_t { kFtz = 1, kSat = 2, kRelu = 4, kModeShift = 3, kToInteger = 0x20 };
Rounding ModeOf(uint8_t flags) { return static_cast<Rounding>(flags >> kModeShift & 3); }

template <class T>
T RoundToInteger(T x, Rounding mode) {
  switch (mode) {
    case Rounding::kZero: return std::trunc(x);
    case Rounding::kDown: return std::floor(x);
    case Rounding::kUp: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

template <class D, class S>
D IntegerToInteger(S a, bool sat) {
  if (!sat) return static_cast<D>(a);
  using Limits = std::numeric_limits<D>;
  if constexpr (std::is_signed_v<S>) {
    if constexpr (std::is_signed_v<D>) {
      return a < static_cast<int64_t>(Limits::min())   ? Limits::min()
             : a > static_cast<int64_t>(Limits::max()) ? Limits::max()
                                                       : static_cast<D>(a);
    } else {
      return a < 0 ? D{0} : static_cast<uint64_t>(a) > Limits::max() ? Limits::max() : static_cast<D>(a);
    }
  } else {
    return static_cast<uint64_t>(a) > static_cast<uint64_t>(Limits::max()) ? Limits::max() : static_cast<D>(a);
  }
}

// Out of range gives the nearest value of the type. NaN gives 0, but from f64, or to 64 bits, the top bit alone (as devices do).
template <class D, class F>
D RealToInteger(F x, Rounding mode) {
  if (x != x) return sizeof(F) == 8 || sizeof(D) == 8 ? static_cast<D>(1ull << (8 * sizeof(D) - 1)) : D{0};
  const F r = RoundToInteger(x, mode);
  constexpr F kLow = static_cast<F>(std::numeric_limits<D>::min());
  const F high = std::ldexp(F{1}, std::numeric_limits<D>::digits);  // one above the largest
  if (r <= kLow) return std::numeric_limits<D>::min();
  if (r >= high) return std::numeric_limits<D>::max();
  return static_cast<D>(r);
}

uint16_t Nearest(double x, Half*) { return FloatToHalf(OddFloat(x)); }
uint16_t Nearest(double x, Brain*) { return FloatToBrain(OddFloat(x)); }
uint16_t Narrow16(double x, Rounding mode, Half* tag) {
  const float odd = OddFloat(x);
  if (x != x) return _cvtss_sh(odd, _MM_FROUND_TO_NEAREST_INT);  // keeps what fits of the payload
  switch (mode) {
    case Rounding::kZero: return _cvtss_sh(odd, _MM_FROUND_TO_ZERO);
    case Rounding::kDown: return _cvtss_sh(odd, _MM_FROUND_TO_NEG_INF);
    case Rounding::kUp: return _cvtss_sh(odd, _MM_FROUND_TO_POS_INF);
    default: return Nearest(x, tag);
  }
}
uint16_t Narrow16(double x, Rounding mode, Brain* tag) {
  if (x != x) return 0x7FFF;
  if (mode == Rounding::kNearest) return Nearest(x, tag);
  const float odd = OddFloat(x);
  const uint32_t bits = std::bit_cast<uint32_t>(odd);
  const bool inexact = (bits & 0xFFFF) != 0;
  const bool up = inexact && std::isfinite(odd) && ((mode == Rounding::kUp && odd > 0) || (mode == Rounding::kDown && odd < 0));
  return static_cast<uint16_t>((bits >> 16) + (up ? 1 : 0));
}

template <class D, class S>
D ConvertOne(S a, uint8_t flags) {
  const Rounding mode = ModeOf(flags);
  if constexpr (!kIsReal<D> && !kIsReal<S>) {
    return IntegerToInteger<D, S>(a, (flags & kSat) != 0);
  } else if constexpr (!kIsReal<D>) {
    if constexpr (std::is_same_v<S, Half>)
      return RealToInteger<D, float>(HalfToFloat::Run(a.bits), mode);
    else if constexpr (std::is_same_v<S, Brain>)
      return RealToInteger<D, float>(BrainToFloat::Run(a.bits), mode);
    else if constexpr (std::is_same_v<S, float>)
      return RealToInteger<D, float>(flags & kFtz ? Flush(a) : a, mode);
    else
      return RealToInteger<D, double>(a, mode);
  } else {
    // To a real type. The processor runs in `mode` unless an integer is asked for.
    if constexpr (kIsHalf<D>) {
      double x;
      if constexpr (std::is_same_v<S, Half>)
        x = HalfToFloat::Run(a.bits);
      else if constexpr (std::is_same_v<S, Brain>)
        x = BrainToFloat::Run(a.bits);
      else if constexpr (std::is_same_v<S, float>)
        x = flags & kFtz ? Flush(a) : a;
      else if constexpr (std::is_same_v<S, double>)
        x = a;
      else if constexpr (sizeof(S) == 8) {
        // 64 bits do not fit a double: keep what is lost as a sticky bit.
        const bool negative = a < 0;
        uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
        if (magnitude >> 52) magnitude = (magnitude & ~0xFFFull) | ((magnitude & 0xFFF) != 0 ? 0x1000 : 0);
        x = static_cast<double>(magnitude);
        if (negative) x = -x;
      } else
        x = static_cast<double>(a);
      if (flags & kToInteger) x = RoundToInteger(x, mode);
      if (flags & kSat) x = x != x ? 0 : Saturate(x);
      if ((flags & kRelu) != 0 && x <= 0) x = 0;  // -0 too
      if (!std::is_same_v<S, double> && x != x) return D{0x7FFF};
      return D{Narrow16(x, flags & kToInteger ? Rounding::kNearest : mode, static_cast<D*>(nullptr))};
    } else {
      D x;
      if constexpr (std::is_same_v<S, Half>)
        x = static_cast<D>(HalfToFloat::Run(a.bits));
      else if constexpr (std::is_same_v<S, Brain>)
        x = static_cast<D>(BrainToFloat::Run(a.bits));
      else if constexpr (std::is_same_v<S, float>)
        x = static_cast<D>(flags & kFtz ? Flush(a) : a);
      else if constexpr (std::is_same_v<S, double>)
        x = static_cast<D>(a);
      else
        x = a == 0 ? D{0} : static_cast<D>(a);
      if (flags & kToInteger) x = RoundToInteger(x, mode);
      if constexpr (std::is_same_v<D, float>) {
        if (flags & kFtz) x = Flush(x);
      }
      // NaNs keep their payload where f64 or bf16 is involved, apart from .ftz on the f32 side.
      if constexpr (std::is_same_v<D, float> && (std::is_same_v<S, float> || std::is_same_v<S, Half>)) {
        if (x != x) x = CanonicalNan(x);
      }
      if constexpr (std::is_same_v<D, double> && std::is_same_v<S, float>) {
        if (x != x && (flags & kFtz) != 0) x = std::bit_cast<double>(0x7FFFFFFFE0000000ull);
      }
      if (flags & kSat) x = Saturate(x);
      if ((flags & kRelu) != 0 && x <= 0) x = 0;
      return x;
    }
  }
}

template <class D, class S>
void ConvertPlain(Warp& w, const Inst& inst, uint32_t mask) {
  D* d = w.Slot<D>(inst.dst);
  const S* a = w.Slot<S>(inst.src[0]);
  ForLanes(mask, [&](uint32_t l) { d[l] = ConvertOne<D, S>(a[l], 0); });
}
template <class D, class S>
void ConvertFlagged(Warp& w, const Inst& inst, uint32_t mask) {
  D* d = w.Slot<D>(inst.dst);
  const S* a = w.Slot<S>(inst.src[0]);
  const uint8_t flags = inst.small;
  ForLanes(mask, [&](uint32_t l) { d[l] = ConvertOne<D, S>(a[l], flags); });
}
// Under the rounding mode that the result is rounded with.
template <class D, class S>
void ConvertRounded(Warp& w, const Inst& inst, uint32_t mask) {
  volatile Handler run = &ConvertFlagged<D, S>;
  RoundingScope scope(ModeOf(inst.small));
  run(w, inst, mask);
}

struct Choice {
  Handler plain, flagged, rounded;
};
template <class D, class S>
Choice Make() {
  return {&ConvertPlain<D, S>, &ConvertFlagged<D, S>, &ConvertRounded<D, S>};
}
template <class D>
bool PickSource(Type s, Choice* choice) {
  if (s == kF16) return *choice = Make<D, Half>(), true;
  if (s == kBf16) return *choice = Make<D, Brain>(), true;
  if (s == kF32) return *choice = Make<D, float>(), true;
  if (s == kF64) return *choice = Make<D, double>(), true;
  if (!s.IsInteger() || s.type_class == TypeClass::kBits) return false;
  const bool sign = s.IsSigned();
  switch (s.size_bytes) {
    case 1: return *choice = sign ? Make<D, int8_t>() : Make<D, uint8_t>(), true;
    case 2: return *choice = sign ? Make<D, int16_t>() : Make<D, uint16_t>(), true;
    case 4: return *choice = sign ? Make<D, int32_t>() : Make<D, uint32_t>(), true;
    case 8: return *choice = sign ? Make<D, int64_t>() : Make<D, uint64_t>(), true;
    default: return false;
  }
}
bool Pick(Type d, Type s, Choice* choice) {
  if (d == kF16) return PickSource<Half>(s, choice);
  if (d == kBf16) return PickSource<Brain>(s, choice);
  if (d == kF32) return PickSource<float>(s, choice);
  if (d == kF64) return PickSource<double>(s, choice);
  if (!d.IsInteger() || d.type_class == TypeClass::kBits) return false;
  const bool sign = d.IsSigned();
  switch (d.size_bytes) {
    case 1: return sign ? PickSource<int8_t>(s, choice) : PickSource<uint8_t>(s, choice);
    case 2: return sign ? PickSource<int16_t>(s, choice) : PickSource<uint16_t>(s, choice);
    case 4: return sign ? PickSource<int32_t>(s, choice) : PickSource<uint32_t>(s, choice);
    case 8: return sign ? PickSource<int64_t>(s, choice) : PickSource<uint64_t>(s, choice);
    default: return false;
  }
}

// tf32: an f32 whose mantissa has ten bits.
template <bool kAway, bool kZero>
struct ToTf32 {
  static uint32_t Run(float x) {
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7F800000u) == 0x7F800000u || kZero) return bits & ~0x1FFFu;
    bits += kAway ? 0x1000 : 0xFFF + (bits >> 13 & 1);
    return bits & ~0x1FFFu;
  }
};

void LowerConvert(Lowering& l) {
  if (LowerPackedConvert(l)) return;
  if (l.Take("tf32")) {
    const bool away = l.Take("rna"), zero = l.Take("rz"), nearest = l.Take("rn");
    if (away + zero + nearest != 1) return l.Unknown();
    l.TakeType();
    return EmitUnary(l,
                     away   ? &Unary<ToTf32<true, false>, uint32_t, float>
                     : zero ? &Unary<ToTf32<false, true>, uint32_t, float>
                            : &Unary<ToTf32<false, false>, uint32_t, float>,
                     kB32, kF32);
  }
  uint8_t flags = 0;
  bool to_integer = true;
  Rounding mode = Rounding::kNearest;
  bool given = false;
  if (l.Take("rni"))
    mode = Rounding::kNearest;
  else if (l.Take("rzi"))
    mode = Rounding::kZero;
  else if (l.Take("rmi"))
    mode = Rounding::kDown;
  else if (l.Take("rpi"))
    mode = Rounding::kUp;
  else {
    to_integer = false;
    mode = TakeRounding(l, &given);
  }
  if (l.Take("ftz")) flags |= kFtz;
  if (l.Take("sat")) flags |= kSat;
  if (l.Take("relu")) flags |= kRelu;
  const Type d = l.TakeType(), s = l.TakeType();
  Choice choice;
  if (!Pick(d, s, &choice)) return l.Unknown();
  const bool real_result = !d.IsInteger();
  if (!real_result && !s.IsInteger() && !to_integer && given) return l.Unknown();
  flags |= static_cast<uint8_t>(static_cast<uint8_t>(mode) << kModeShift);
  if (to_integer && real_result) flags |= kToInteger;
  const bool set_mode = real_result && !to_integer && mode != Rounding::kNearest;
  const uint32_t a = l.Source(1, s), result = l.Destination(0, d);
  Inst& inst = l.Emit(flags == 0 ? choice.plain : set_mode ? choice.rounded : choice.flagged);
  inst.dst = result;
  inst.src[0] = a;
  inst.small = flags;
}

constexpr OpRow kRows[] = {{"cvt", kAnyType, LowerConvert}};

}  // namespace

std::span<const OpRow> ConvertOps() { return kRows; }

}  // namespace tessera::emulator
