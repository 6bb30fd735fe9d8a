// f16, bf16 and 8-bit formats against a correctly rounded reference computed in double.
#include <bit>
#include <cmath>
#include <random>

#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::emulator {
namespace {

// Value of a format with `mantissa` stored bits and an exponent bias; NaN and infinity as IEEE.
double Decode(uint16_t x, int mantissa, int bias) {
  const int exponent_bits = 15 - mantissa, exponent = x >> mantissa & ((1 << exponent_bits) - 1), m = x & ((1 << mantissa) - 1);
  double r;
  if (exponent == (1 << exponent_bits) - 1)
    r = m == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    r = std::ldexp(m, 1 - bias - mantissa);
  else
    r = std::ldexp(m + (1 << mantissa), exponent - bias - mantissa);
  return x & 0x8000 ? -r : r;
}
// The nearest value, found by looking at both neighbours: slow and obviously right.
uint16_t Encode(long double x, int mantissa, int bias) {
  if (std::isnan(x)) return 0x7FFF;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const long double magnitude = std::fabs(x);
  const auto infinity = static_cast<uint16_t>(((1 << (15 - mantissa)) - 1) << mantissa);
  uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (Decode(middle, mantissa, bias) <= magnitude ? low : high) = middle;
  }
  const long double below = Decode(low, mantissa, bias);
  // What would follow the largest value decides where infinity begins.
  const long double above = high == infinity ? 2 * below - Decode(low - 1, mantissa, bias) : Decode(high, mantissa, bias);
  const long double down = magnitude - below, up = above - magnitude;
  return static_cast<uint16_t>(sign | (down < up || (down == up && (low & 1) == 0) ? low : high));
}

// a * b + c where the sum may not fit a long double: its last bit is made odd when something was lost, so that a tie is not
// mistaken for one.
long double OddFma(long double a, long double b, long double c) {
  const long double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const long double back = sum - product, error = (product - (sum - back)) + (c - back);
  uint64_t bits = 0;
  std::memcpy(&bits, &sum, 8);
  return error == 0 || (bits & 1) != 0 ? sum : std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

std::vector<uint16_t> Samples(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint16_t> v(n);
  for (uint16_t& x : v) x = static_cast<uint16_t>(random());
  return v;
}
bool Same(uint16_t a, uint16_t b, int mantissa) {
  const int all = ((1 << (15 - mantissa)) - 1) << mantissa;
  if ((a & 0x7FFF) > all && (b & 0x7FFF) > all) return true;  // both NaN
  return a == b;
}

TEST(Half, ArithmeticIsCorrectlyRounded) {
  TestDevice device;
  auto module = CompileFile(device, "half.ptx");
  ASSERT_NE(module, nullptr);
  const int n = 4096;
  const std::vector<uint16_t> a = Samples(n, 1), b = Samples(n, 2);
  auto *da = device.Array(a), *db = device.Array(b), *out = device.Zeros<uint16_t>(8 * n);
  EXPECT_RUNS(device.Run(*module, "half_math", {16}, {256}, 0, da, db, out, n));
  for (int i = 0; i < n; ++i) {
    const long double x = Decode(a[i], 10, 15), y = Decode(b[i], 10, 15);
    const uint16_t* o = out + 8 * i;
    ASSERT_TRUE(Same(o[0], Encode(x + y, 10, 15), 10)) << i << " " << o[0];
    ASSERT_TRUE(Same(o[1], Encode(x * y, 10, 15), 10)) << i;
    ASSERT_TRUE(Same(o[2], Encode(OddFma(x, y, x), 10, 15), 10)) << i;
    if (!std::isnan(x) && !std::isnan(y)) {
      ASSERT_EQ(Decode(o[3], 10, 15), static_cast<double>(std::max(x, y)));
    }
    if (!std::isnan(x)) {
      ASSERT_EQ(o[4], a[i] | 0x8000);
    }
    ASSERT_EQ(o[5], x < y ? 0x3C00 : 0x4000) << i;
    ASSERT_TRUE(Same(o[6], std::isnan(x + y) ? 0 : Encode(std::min(std::max(x + y, 0.0L), 1.0L), 10, 15) & 0x7FFF, 10)) << i;
  }
}

TEST(Half, BrainIsCorrectlyRounded) {
  TestDevice device;
  auto module = CompileFile(device, "half.ptx");
  ASSERT_NE(module, nullptr);
  const int n = 4096;
  const std::vector<uint16_t> a = Samples(n, 3), b = Samples(n, 4);
  auto *da = device.Array(a), *db = device.Array(b), *out = device.Zeros<uint16_t>(4 * n);
  EXPECT_RUNS(device.Run(*module, "brain_math", {16}, {256}, 0, da, db, out, n));
  for (int i = 0; i < n; ++i) {
    const long double x = Decode(a[i], 7, 127), y = Decode(b[i], 7, 127);
    const uint16_t* o = out + 4 * i;
    ASSERT_TRUE(Same(o[0], Encode(x + y, 7, 127), 7)) << i;
    ASSERT_TRUE(Same(o[1], Encode(x * y, 7, 127), 7)) << i;
    ASSERT_TRUE(Same(o[2], Encode(OddFma(x, y, x), 7, 127), 7)) << i;
    if (!std::isnan(x) && !std::isnan(y)) {
      ASSERT_EQ(Decode(o[3], 7, 127), static_cast<double>(std::min(x, y)));
    }
  }
}

TEST(Half, PairsAndAtomics) {
  TestDevice device;
  auto module = CompileFile(device, "half.ptx");
  ASSERT_NE(module, nullptr);
  std::vector<uint32_t> a(32), b(32);
  for (int i = 0; i < 32; ++i) {
    a[i] = static_cast<uint32_t>(Encode(i, 10, 15)) | static_cast<uint32_t>(Encode(0.5 * i, 10, 15)) << 16;
    b[i] = static_cast<uint32_t>(Encode(10, 10, 15)) | static_cast<uint32_t>(Encode(-2, 10, 15)) << 16;
  }
  auto *da = device.Array(a), *db = device.Array(b), *out = device.Zeros<uint32_t>(64);
  auto* sums = device.Zeros<float>(64);
  EXPECT_RUNS(device.Run(*module, "pair_math", {1}, {32}, 0, da, db, out, sums));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(Decode(static_cast<uint16_t>(out[2 * i]), 10, 15), i * 10.0 + i + 10);
    EXPECT_EQ(Decode(static_cast<uint16_t>(out[2 * i] >> 16), 10, 15), -i + 0.5 * i - 2);
    EXPECT_EQ(out[2 * i + 1], (i > 10 ? 0x3C00u : 0u) | 0x3C000000u);
    EXPECT_EQ(sums[2 * i], i * 11.0f + 10);
    EXPECT_EQ(sums[2 * i + 1], 2 * (-0.5f * i - 2));
  }
  auto* half = device.Zeros<uint32_t>(1);
  auto* brain = device.Zeros<uint16_t>(2);
  auto* wide = device.Zeros<double>(1);
  EXPECT_RUNS(device.Run(*module, "atomic_half", {4}, {32}, 0, half, brain, wide));
  EXPECT_EQ(Decode(static_cast<uint16_t>(*half), 10, 15), 128);
  EXPECT_EQ(Decode(static_cast<uint16_t>(*half >> 16), 10, 15), 64);
  EXPECT_EQ(Decode(brain[0], 7, 127), 128);
  EXPECT_EQ(*wide, 32.0);
}

TEST(Half, EightBitFormats) {
  TestDevice device;
  auto module = CompileFile(device, "half.ptx");
  ASSERT_NE(module, nullptr);
  std::vector<float> in = {0,       -0.0f, 1,     1.0625f, 1.1875f, 448, 463, 1000, -1e30f, 0.001953125f, 0.0009765625f,
                           0.0009f, 57344, 60000, 3.5f,    -17};
  in.resize(32, 2.0f);
  float *din = device.Array(in), *back = device.Zeros<float>(64);
  auto *e4m3 = device.Zeros<uint8_t>(32), *e5m2 = device.Zeros<uint8_t>(32);
  EXPECT_RUNS(device.Run(*module, "eight_bits", {1}, {32}, 0, din, e4m3, e5m2, back));
  const uint8_t expected4[] = {0x00, 0x80, 0x38, 0x38, 0x3A, 0x7E, 0x7E, 0x7E, 0xFE, 0x01, 0x00, 0x00, 0x7E, 0x7E, 0x46, 0xD8};
  const uint8_t expected5[] = {0x00, 0x80, 0x3C, 0x3C, 0x3D, 0x5F, 0x5F, 0x64, 0xFB, 0x18, 0x14, 0x13, 0x7B, 0x7B, 0x43, 0xCC};
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(e4m3[i], expected4[i]) << in[i];
    EXPECT_EQ(e5m2[i], expected5[i]) << in[i];
  }
  EXPECT_EQ(back[2 * 5], 448.0f);
  EXPECT_EQ(back[2 * 12 + 1], 57344.0f);
  EXPECT_EQ(back[2 * 15], -16.0f);
}

}  // namespace
}  // namespace tessera::emulator
