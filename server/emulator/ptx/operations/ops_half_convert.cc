// cvt between packed 16-bit formats, 8-bit formats and f32. Source: PTX ISA 9.0, "cvt"; OCP 8-bit Floating Point (OFP8) 1.0.
#include <cmath>

#include "server/emulator/ptx/lower/half_ops.h"
#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/half.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

enum Flag : uint8_t { kZero = 1, kRelu = 2, kSatFinite = 4 };

// .relu makes -0 positive as well.
uint16_t ToHalf(float x, uint8_t flags) {
  if ((flags & kRelu) != 0 && x <= 0) x = 0;
  if ((flags & kSatFinite) != 0 && std::fabs(x) > 65504.0f) x = std::copysign(65504.0f, x);
  return flags & kZero ? FloatToHalfZero(x) : FloatToHalf(x);
}
uint16_t ToBrain(float x, uint8_t flags) {
  if ((flags & kRelu) != 0 && x <= 0) x = 0;
  const uint16_t r = flags & kZero ? FloatToBrainZero(x) : FloatToBrain(x);
  if ((flags & kSatFinite) != 0 && (r & 0x7FFF) == 0x7F80) return static_cast<uint16_t>((r & 0x8000) | 0x7F7F);
  return r;
}
// d = {a, b}: a in the upper half.
template <uint16_t (*kOne)(float, uint8_t)>
void PackPair(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const float* a = w.Slot<float>(inst.src[0]);
  const float* b = w.Slot<float>(inst.src[1]);
  ForLanes(mask, [&](uint32_t l) { d[l] = static_cast<uint32_t>(kOne(a[l], inst.small)) << 16 | kOne(b[l], inst.small); });
}

// 8-bit formats. e4m3: bias 7, no infinities, NaN is all ones; e5m2: as a short f16. Both are always .satfinite.
template <int kExponentBits, int kMantissaBits, bool kInfinity>
struct Small {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr float Largest() { return kInfinity ? 57344.0f : 448.0f; }
  static constexpr uint8_t kLargestBits = kInfinity ? 0x7B : 0x7E;
  static uint8_t From(float x, bool relu) {
    if (x != x) return 0x7F;
    if (relu && x <= 0) x = 0;
    const uint8_t sign = std::signbit(x) ? 0x80 : 0;
    const float magnitude = std::fabs(x);
    if (magnitude == 0) return sign;
    if (magnitude >= Largest()) return sign | kLargestBits;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - kBias) exponent = 1 - kBias;
    const float steps = std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));  // exact scaling, ties to even
    const auto code = static_cast<uint32_t>(steps) + (static_cast<uint32_t>(exponent + kBias - 1) << kMantissaBits);
    return static_cast<uint8_t>(sign | (code > kLargestBits ? kLargestBits : code));
  }
  static float To(uint8_t x) {
    const int exponent = x >> kMantissaBits & ((1 << kExponentBits) - 1);
    const int mantissa = x & ((1 << kMantissaBits) - 1);
    float r;
    if (kInfinity && exponent == (1 << kExponentBits) - 1)
      r = mantissa == 0 ? INFINITY : NAN;
    else if (!kInfinity && (x & 0x7F) == 0x7F)
      r = NAN;
    else if (exponent == 0)
      r = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    else
      r = std::ldexp(static_cast<float>(mantissa + (1 << kMantissaBits)), exponent - kBias - kMantissaBits);
    return x & 0x80 ? -r : r;
  }
};
using E4m3 = Small<4, 3, false>;
using E5m2 = Small<5, 2, true>;

template <class S>
void PackSmall(Warp& w, const Inst& inst, uint32_t mask) {
  uint16_t* d = w.Slot<uint16_t>(inst.dst);
  const float* a = w.Slot<float>(inst.src[0]);
  const float* b = w.Slot<float>(inst.src[1]);
  const bool relu = (inst.small & kRelu) != 0;
  ForLanes(mask, [&](uint32_t l) { d[l] = static_cast<uint16_t>(S::From(a[l], relu) << 8 | S::From(b[l], relu)); });
}
template <class S>
void SmallFromHalves(Warp& w, const Inst& inst, uint32_t mask) {
  uint16_t* d = w.Slot<uint16_t>(inst.dst);
  const uint32_t* a = w.Slot<uint32_t>(inst.src[0]);
  const bool relu = (inst.small & kRelu) != 0;
  ForLanes(mask, [&](uint32_t l) {
    const uint8_t high = S::From(HalfToFloat::Run(static_cast<uint16_t>(a[l] >> 16)), relu),
                  low = S::From(HalfToFloat::Run(static_cast<uint16_t>(a[l])), relu);
    d[l] = static_cast<uint16_t>(high << 8 | low);
  });
}
template <class S>
void HalvesFromSmall(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const uint16_t* a = w.Slot<uint16_t>(inst.src[0]);
  ForLanes(mask, [&](uint32_t l) {
    d[l] = static_cast<uint32_t>(ToHalf(S::To(static_cast<uint8_t>(a[l] >> 8)), inst.small)) << 16 |
           ToHalf(S::To(static_cast<uint8_t>(a[l])), inst.small);
  });
}

uint8_t TakeFlags(Lowering& l) {
  uint8_t flags = 0;
  if (l.Take("rz"))
    flags |= kZero;
  else if (!l.Take("rn"))
    l.Unknown();
  if (l.Take("relu")) flags |= kRelu;
  if (l.Take("satfinite")) flags |= kSatFinite;
  return flags;
}

void EmitPair(Lowering& l, Handler run, Type d, uint8_t flags) {
  const uint32_t a = l.Source(1, kF32), b = l.Source(2, kF32), result = l.Destination(0, d);
  Inst& inst = l.Emit(run);
  inst.dst = result;
  inst.src[0] = a;
  inst.src[1] = b;
  inst.small = flags;
}
void EmitOne(Lowering& l, Handler run, Type d, Type s, uint8_t flags) {
  const uint32_t a = l.Source(1, s), result = l.Destination(0, d);
  Inst& inst = l.Emit(run);
  inst.dst = result;
  inst.src[0] = a;
  inst.small = flags;
}

}  // namespace

bool LowerPackedConvert(Lowering& l) {
  const bool e4m3 = l.Peek("e4m3x2"), e5m2 = l.Peek("e5m2x2");
  const bool half = l.Peek("f16x2"), brain = l.Peek("bf16x2");
  if (!e4m3 && !e5m2 && !half && !brain) return false;
  const uint8_t flags = TakeFlags(l);
  if (e4m3 || e5m2) {
    const std::string_view small = e4m3 ? "e4m3x2" : "e5m2x2";
    const bool to_small = l.TakeFirst() == small;
    if ((flags & kZero) != 0 || brain) return l.Unknown(), true;
    if (!to_small) {
      l.Take(small);
      EmitOne(l, e4m3 ? &HalvesFromSmall<E4m3> : &HalvesFromSmall<E5m2>, kB32, kB16, flags & kRelu);
    } else if (half) {
      l.Take("f16x2");
      EmitOne(l, e4m3 ? &SmallFromHalves<E4m3> : &SmallFromHalves<E5m2>, kB16, kB32, flags);
    } else {
      if (l.TakeType() != kF32) return l.Unknown(), true;
      EmitPair(l, e4m3 ? &PackSmall<E4m3> : &PackSmall<E5m2>, kB16, flags);
    }
    return true;
  }
  const Type d = l.TakeType();
  if (!l.HasType() || l.TakeType() != kF32 || (d != kF16x2 && d != kBf16x2)) return l.Unknown(), true;
  EmitPair(l, half ? &PackPair<ToHalf> : &PackPair<ToBrain>, d, flags);
  return true;
}

}  // namespace tessera::emulator
