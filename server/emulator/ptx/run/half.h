// Scalar conversions of 16-bit floating-point formats: f16 (IEEE binary16) and bf16 (the upper half of an f32).
#pragma once

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace tessera::emulator {

enum class HalfRounding : uint8_t { kNearest, kZero, kDown, kUp };

struct HalfToFloat {
  static float Run(uint16_t x) { return _cvtsh_ss(x); }
};
struct BrainToFloat {
  static float Run(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
};

// NaNs become the canonical one of the format (0x7FFF), as devices give.
inline uint16_t FloatToHalf(float x) { return x != x ? 0x7FFF : _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
inline uint16_t FloatToHalfZero(float x) { return x != x ? 0x7FFF : _cvtss_sh(x, _MM_FROUND_TO_ZERO); }
inline uint16_t FloatToBrain(float x) {
  if (x != x) return 0x7FFF;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline uint16_t FloatToBrainZero(float x) { return x != x ? 0x7FFF : static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

// a * b + c in double with the last bit made odd when inexact, so that a second rounding to few bits is the right one.
// The product of two 16-bit formats is exact in double.
inline double OddFma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c;
  const double sum = product + addend;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}
// double to float with the last bit made odd when inexact.
inline float OddFloat(double x) {
  const auto y = static_cast<float>(x);
  if (!std::isfinite(y)) return std::isfinite(x) ? std::copysign(std::bit_cast<float>(0x7F7FFFFFu), y) : y;
  const double back = y;
  if (back == x) return y;
  const uint32_t bits = std::bit_cast<uint32_t>(y);
  if ((bits & 1) != 0) return y;
  if (y == 0) return std::copysign(std::bit_cast<float>(1u), static_cast<float>(x < 0 ? -1 : 1));
  const bool away = (std::fabs(x) > std::fabs(back));
  return std::bit_cast<float>(away ? bits + 1 : bits - 1);
}

}  // namespace tessera::emulator
