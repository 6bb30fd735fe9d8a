// Matrix instructions and asynchronous copies against references computed here. The values are small integers, so that
// every sum is exact and its order does not matter.
#include <bit>

#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::emulator {
namespace {

class MatrixKernels : public testing::Test {
 protected:
  void SetUp() override {
    module_ = CompileFile(device_, "matrix.ptx");
    ASSERT_NE(module_, nullptr);
  }
  TestDevice device_;
  std::unique_ptr<Module> module_;
};

// Values that tell rows, columns and signs apart.
float Value(size_t i) { return static_cast<float>(static_cast<int>(i * 7 % 23) - 11); }

std::vector<float> Floats(size_t n, size_t seed) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = Value(i + seed);
  return values;
}
std::vector<uint16_t> Halves(const std::vector<float>& from) {
  std::vector<uint16_t> values;
  for (const float value : from) values.push_back(std::bit_cast<uint16_t>(static_cast<_Float16>(value)));
  return values;
}

// a (m x k, by rows) times b, of which `b(k, n)` gives the elements.
template <typename B>
std::vector<double> Product(const std::vector<float>& a, const B& b, size_t m, size_t n, size_t k) {
  std::vector<double> result(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t x = 0; x < k; ++x) result[i * n + j] += static_cast<double>(a[i * k + x]) * b(x, j);
    }
  }
  return result;
}

TEST_F(MatrixKernels, HalvesThroughLdmatrix) {
  const std::vector<float> a = Floats(16 * 16, 1), b = Floats(8 * 16, 5), c = Floats(16 * 8, 9);
  float* d = device_.Zeros<float>(16 * 8);
  EXPECT_RUNS(
      device_.Run(*module_, "mma_f16", {1}, {32}, 0, device_.Array(Halves(a)), device_.Array(Halves(b)), device_.Array(c), d));
  const auto expected = Product(
      a, [&](size_t k, size_t n) { return b[n * 16 + k]; }, 16, 8, 16);
  for (size_t i = 0; i < 16 * 8; ++i) ASSERT_EQ(d[i], expected[i] + c[i]) << i;
}

TEST_F(MatrixKernels, Tf32IgnoresTheLowerBits) {
  std::vector<float> a = Floats(16 * 8, 2), b = Floats(8 * 8, 3);
  std::vector<float> noisy = a;
  for (float& value : noisy) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) | 0x1FFF);
  float* d = device_.Zeros<float>(16 * 8);
  EXPECT_RUNS(device_.Run(*module_, "mma_tf32", {1}, {32}, 0, device_.Array(noisy), device_.Array(b), d));
  const auto expected = Product(
      a, [&](size_t k, size_t n) { return b[k * 8 + n]; }, 16, 8, 8);
  for (size_t i = 0; i < 16 * 8; ++i) ASSERT_EQ(d[i], expected[i]) << i;
}

TEST_F(MatrixKernels, Bytes) {
  const std::vector<float> a = Floats(16 * 32, 4), b = Floats(8 * 32, 6);
  const auto bytes = [](const std::vector<float>& from) { return std::vector<int8_t>(from.begin(), from.end()); };
  int* d = device_.Zeros<int>(16 * 8);
  EXPECT_RUNS(device_.Run(*module_, "mma_s8", {1}, {32}, 0, device_.Array(bytes(a)), device_.Array(bytes(b)), d));
  const auto expected = Product(
      a, [&](size_t k, size_t n) { return b[n * 32 + k]; }, 16, 8, 32);
  for (size_t i = 0; i < 16 * 8; ++i) ASSERT_EQ(d[i], expected[i]) << i;
}

TEST_F(MatrixKernels, Doubles) {
  const std::vector<float> a = Floats(8 * 4, 7), b = Floats(4 * 8, 8);
  const auto doubles = [](const std::vector<float>& from) { return std::vector<double>(from.begin(), from.end()); };
  double* d = device_.Zeros<double>(8 * 8);
  EXPECT_RUNS(device_.Run(*module_, "mma_f64", {1}, {32}, 0, device_.Array(doubles(a)), device_.Array(doubles(b)), d));
  const auto expected = Product(
      a, [&](size_t k, size_t n) { return b[k * 8 + n]; }, 8, 8, 4);
  for (size_t i = 0; i < 8 * 8; ++i) ASSERT_EQ(d[i], expected[i] + 1) << i;
}

TEST_F(MatrixKernels, Transposes) {
  std::vector<uint16_t> tile(64);
  for (size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<uint16_t>(1000 + i);
  uint16_t *once = device_.Zeros<uint16_t>(64), *again = device_.Zeros<uint16_t>(64);
  EXPECT_RUNS(device_.Run(*module_, "transposes", {1}, {32}, 0, device_.Array(tile), once, again));
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(once[i], tile[i % 8 * 8 + i / 8]) << i;
    ASSERT_EQ(again[i], tile[i]) << i;
  }
}

TEST_F(MatrixKernels, WmmaInItsThreeShapes) {
  struct {
    const char* kernel;
    size_t m, n;
    bool b_by_columns;
  } const shapes[] = {{"wmma_16_16", 16, 16, false}, {"wmma_32_8", 32, 8, true}};
  for (const auto& shape : shapes) {
    const std::vector<float> a = Floats(shape.m * 16, 1), b = Floats(16 * shape.n, 2), c = Floats(shape.m * shape.n, 3);
    float* d = device_.Zeros<float>(shape.m * shape.n);
    EXPECT_RUNS(device_.Run(*module_, shape.kernel, {1}, {32}, 0, device_.Array(Halves(a)), device_.Array(Halves(b)),
                            device_.Array(c), d));
    const auto element = [&](size_t k, size_t n) { return shape.b_by_columns ? b[n * 16 + k] : b[k * shape.n + n]; };
    const auto expected = Product(a, element, shape.m, shape.n, 16);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(d[i], expected[i] + 2 * c[i]) << shape.kernel << ' ' << i;
  }
  const std::vector<float> a = Floats(8 * 16, 1), b = Floats(16 * 32, 2), c = Floats(8 * 32, 3);
  uint16_t* d = device_.Zeros<uint16_t>(8 * 32);
  EXPECT_RUNS(device_.Run(*module_, "wmma_8_32", {1}, {32}, 0, device_.Array(Halves(a)), device_.Array(Halves(b)),
                          device_.Array(Halves(c)), d));
  const auto expected = Product(
      a, [&](size_t k, size_t n) { return b[k * 32 + n]; }, 8, 32, 16);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(static_cast<float>(std::bit_cast<_Float16>(d[i])), expected[i] + 2 * c[i]) << i;
}

TEST_F(MatrixKernels, AFragmentOutsideItsArrayFaults) {
  const std::vector<float> a = Floats(16 * 16, 1), c = Floats(16 * 16, 3);
  uint16_t* half_of_b = device_.Array(Halves(Floats(8 * 16, 2)));
  float* d = device_.Zeros<float>(16 * 16);
  const LaunchResult result =
      device_.Run(*module_, "wmma_16_16", {1}, {32}, 0, device_.Array(Halves(a)), half_of_b, device_.Array(c), d);
  EXPECT_EQ(result.error, LaunchError::kIllegalAddress) << result.message;
}

TEST_F(MatrixKernels, AsynchronousCopies) {
  std::vector<uint32_t> in(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i + 1);
  uint32_t* out = device_.Zeros<uint32_t>(128 + 32);
  std::memset(out, 0xFF, 160 * 4);
  EXPECT_RUNS(device_.Run(*module_, "copy_async", {1}, {32}, 0, device_.Array(in), out));
  for (size_t i = 0; i < 128; ++i) ASSERT_EQ(out[i], i % 4 < 2 ? in[i] : 0u) << i;
  for (size_t i = 0; i < 32; ++i) ASSERT_EQ(out[128 + i], i % 2 == 1 ? in[i] : 0u) << i;
}

}  // namespace
}  // namespace tessera::emulator
