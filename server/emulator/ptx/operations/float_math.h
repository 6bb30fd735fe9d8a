// Scalar pieces of floating-point semantics that several families share. Source: PTX ISA 9.0, "Floating Point Instructions".
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tessera::emulator {

// Subnormals become zero of their sign.
inline float Flush(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : x;
}
// [0, 1]; NaN gives 0.
template <class T>
T Saturate(T x) {
  return x > 0 ? (x < 1 ? x : T{1}) : T{0};
}

// The NaN that devices produce in f32; in f64 they make this one but pass on operands that are NaN.
inline float CanonicalNan(float) { return std::bit_cast<float>(0x7FFFFFFFu); }
inline double CanonicalNan(double) { return std::bit_cast<double>(0xFFF8000000000000ull); }

template <class F, bool kFtz, bool kSat>
struct FloatOp {
  static float In(float x) { return kFtz ? Flush(x) : x; }
  static float Out(float x) {
    if (x != x) x = CanonicalNan(x);
    if (kFtz) x = Flush(x);
    return kSat ? Saturate(x) : x;
  }
  static float Run(float a) { return Out(F::Run(In(a))); }
  static float Run(float a, float b) { return Out(F::Run(In(a), In(b))); }
  static float Run(float a, float b, float c) { return Out(F::Run(In(a), In(b), In(c))); }
};

}  // namespace tessera::emulator
