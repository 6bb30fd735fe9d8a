// Ordinary kernels against references computed here. Every test runs under two seeds, so another order of blocks and warps.
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::emulator {
namespace {

class BasicKernels : public testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    device_.seed = GetParam();
    module_ = CompileFile(device_, "basic.ptx");
    ASSERT_NE(module_, nullptr);
  }
  TestDevice device_;
  std::unique_ptr<Module> module_;
};

std::vector<float> Ramp(size_t n, float scale, float offset) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = scale * static_cast<float>(i % 97) + offset;
  return v;
}

TEST_P(BasicKernels, VectorAddAndSaxpy) {
  const int n = 1000;
  const std::vector<float> a = Ramp(n, 0.5f, -3), b = Ramp(n, 1.25f, 7);
  float *da = device_.Array(a), *db = device_.Array(b), *dc = device_.Zeros<float>(n);
  EXPECT_RUNS(device_.Run(*module_, "vector_add", {4}, {256}, 0, da, db, dc, n));
  for (int i = 0; i < n; ++i) ASSERT_EQ(dc[i], a[i] + b[i]);
  EXPECT_RUNS(device_.Run(*module_, "saxpy", {3}, {96}, 0, 2.5f, da, db, n));
  for (int i = 0; i < n; ++i) ASSERT_EQ(db[i], std::fma(2.5f, a[i], b[i]));
}

TEST_P(BasicKernels, Reductions) {
  const int n = 1000;
  std::vector<float> in(n);
  std::iota(in.begin(), in.end(), 0.0f);
  float *din = device_.Array(in), *out = device_.Zeros<float>(4);
  EXPECT_RUNS(device_.Run(*module_, "reduce_shared", {4}, {256}, 256 * 4, din, out, n));
  EXPECT_EQ(out[0] + out[1] + out[2] + out[3], 499500.0f);
  std::vector<int> integers(n);
  std::iota(integers.begin(), integers.end(), -100);
  int *dints = device_.Array(integers), *sum = device_.Zeros<int>(1);
  EXPECT_RUNS(device_.Run(*module_, "reduce_shuffle", {8}, {128}, 0, dints, sum, n));
  EXPECT_EQ(*sum, 499500 - 100 * n);
}

TEST_P(BasicKernels, Matmul) {
  const int n = 64;
  const std::vector<float> a = Ramp(n * n, 0.25f, -1), b = Ramp(n * n, -0.125f, 2);
  float *da = device_.Array(a), *db = device_.Array(b), *dc = device_.Zeros<float>(n * n);
  EXPECT_RUNS(device_.Run(*module_, "matmul_tiled", {4, 4}, {16, 16}, 0, da, db, dc, n));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum = std::fma(a[i * n + k], b[k * n + j], sum);
      ASSERT_EQ(dc[i * n + j], sum);
    }
  }
}

TEST_P(BasicKernels, Histogram) {
  const int n = 5000;
  std::vector<uint8_t> in(n);
  std::vector<uint32_t> expected(256);
  for (int i = 0; i < n; ++i) ++expected[in[i] = static_cast<uint8_t>(i * i + 3 * i)];
  uint8_t* din = device_.Array(in);
  auto* bins = device_.Zeros<uint32_t>(256);
  EXPECT_RUNS(device_.Run(*module_, "histogram", {7}, {192}, 0, din, bins, n));
  EXPECT_EQ(std::vector<uint32_t>(bins, bins + 256), expected);
}

TEST_P(BasicKernels, SoftmaxAndGelu) {
  const int columns = 75;
  const std::vector<float> in = Ramp(3 * columns, 0.11f, -4);
  float *din = device_.Array(in), *out = device_.Zeros<float>(3 * columns);
  EXPECT_RUNS(device_.Run(*module_, "softmax_rows", {3}, {32}, 0, din, out, columns));
  for (int r = 0; r < 3; ++r) {
    double sum = 0, highest = -1e30;
    for (int i = 0; i < columns; ++i) highest = std::max<double>(highest, in[r * columns + i]);
    for (int i = 0; i < columns; ++i) sum += std::exp(in[r * columns + i] - highest);
    for (int i = 0; i < columns; ++i) ASSERT_NEAR(out[r * columns + i], std::exp(in[r * columns + i] - highest) / sum, 1e-7);
  }
  EXPECT_RUNS(device_.Run(*module_, "gelu", {3}, {75}, 0, din, out, 3 * columns));
  for (int i = 0; i < 3 * columns; ++i) {
    const double x = in[i];
    ASSERT_NEAR(out[i], 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))), 2e-6);
  }
}

TEST_P(BasicKernels, VariablesOfTheModule) {
  const int n = 70;
  std::vector<double> x(n);
  for (int i = 0; i < n; ++i) x[i] = 0.3 * i - 7;
  double *dx = device_.Array(x), *dy = device_.Zeros<double>(n);
  EXPECT_RUNS(device_.Run(*module_, "polynomial", {3}, {32}, 0, dx, dy, n));
  for (int i = 0; i < n; ++i) {
    double r = 0;
    for (double c : {3.0, 0.125, -2.25, 1.5}) r = std::fma(r, x[i], c);
    ASSERT_DOUBLE_EQ(dy[i], std::fma(r, 2.0, std::sqrt(std::fabs(x[i])) / 3.0));
  }
  const Variable* counters = module_->FindVariable("counters");
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->size_bytes, 16u);
  EXPECT_EQ(reinterpret_cast<int*>(counters->address)[2], n);
  const Variable* coefficients = module_->FindVariable("coefficients");
  ASSERT_NE(coefficients, nullptr);
  EXPECT_TRUE(coefficients->is_const);
}

TEST_P(BasicKernels, DivergentLoops) {
  const int n = 200;
  std::vector<uint32_t> in(n);
  std::iota(in.begin(), in.end(), 1u);
  uint32_t* din = device_.Array(in);
  int* steps = device_.Zeros<int>(n);
  EXPECT_RUNS(device_.Run(*module_, "collatz", {2}, {128}, 0, din, steps, n));
  for (int i = 0; i < n; ++i) {
    int count = 0;
    for (uint64_t v = in[i]; v != 1; v = v & 1 ? 3 * v + 1 : v >> 1) ++count;
    ASSERT_EQ(steps[i], count) << in[i];
  }
}

TEST_P(BasicKernels, CallsAndRecursion) {
  int* out = device_.Zeros<int>(64);
  EXPECT_RUNS(device_.Run(*module_, "recursion", {1}, {64}, 0, out));
  const int fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
  for (int i = 0; i < 64; ++i) ASSERT_EQ(out[i], fibonacci[i % 13]) << i;
  const std::vector<float> a = Ramp(32, 1.5f, 1);
  float *da = device_.Array(a), *results = device_.Zeros<float>(32);
  EXPECT_RUNS(device_.Run(*module_, "function_pointers", {1}, {32}, 0, da, results));
  for (int i = 0; i < 32; ++i) {
    const float first = i % 3 == 0 ? a[i] + 2 : i % 3 == 1 ? a[i] * 2 : a[i] - 2;
    ASSERT_EQ(results[i], first + a[i] * 0.5f);
  }
}

TEST_P(BasicKernels, SwitchTable) {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[i] = i % 10;
  int *din = device_.Array(in), *out = device_.Zeros<int>(33);
  EXPECT_RUNS(device_.Run(*module_, "switch_table", {1}, {32}, 0, din, out));
  for (int i = 0; i < 32; ++i) {
    const int v = in[i];
    const int expected[] = {17, 5, (2 * 31) ^ 0x55, 102, -9, 29, 216, ~7};
    ASSERT_EQ(out[i + 1], v < 8 ? expected[v] : 1000 + v) << i;
  }
}

TEST_P(BasicKernels, Printf) {
  EXPECT_TRUE(module_->uses_printf());
  EXPECT_RUNS(device_.Run(*module_, "print_things", {1}, {32}, 0, 2, static_cast<const char*>(nullptr)));
  EXPECT_EQ(device_.sink.printed,
            "thread  0 of 32:    0.000 1.234500e+03 text q -5000000000 0xbeef %\n"
            "thread  1 of 32:    0.500 1.234500e+03 text q -5000000000 0xbeef %\n"
            "no arguments\n");
}

TEST_P(BasicKernels, WarpVotes) {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[i] = (i * 5) % 8;
  int* din = device_.Array(in);
  auto* out = device_.Zeros<uint32_t>(320);
  EXPECT_RUNS(device_.Run(*module_, "warp_votes", {1}, {32}, 0, din, out));
  uint32_t ballot = 0, sum = 0;
  for (int i = 0; i < 32; ++i) {
    ballot |= static_cast<uint32_t>(in[i] > 3) << i;
    sum += static_cast<uint32_t>(in[i]);
  }
  for (int i = 0; i < 32; ++i) {
    uint32_t same = 0;
    for (int k = 0; k < 32; ++k) same |= static_cast<uint32_t>(in[k] == in[i]) << k;
    const uint32_t* o = out + i * 10;
    EXPECT_EQ(o[0], ballot);
    EXPECT_EQ(o[1], 1u);
    EXPECT_EQ(o[2], 1u);
    EXPECT_EQ(o[3], same) << i;
    EXPECT_EQ(o[4], 0u);  // all ones plus one
    EXPECT_EQ(o[5], 0u);
    EXPECT_EQ(o[6], sum);
    EXPECT_EQ(o[7], static_cast<uint32_t>(i % 16 >= 3 ? in[i - 3] : in[i])) << i;
    EXPECT_EQ(o[8], static_cast<uint32_t>(in[i / 8 * 8 + 5]));
    EXPECT_EQ(o[9], i % 2 == 1 ? (ballot & 0xAAAAAAAAu) ^ 0xAAAAAAAAu : 0u);
  }
}

TEST_P(BasicKernels, Divide64) {
  std::vector<int64_t> a(32), b(32);
  for (int i = 0; i < 32; ++i) {
    a[i] = (i % 2 ? -1 : 1) * (0x123456789ABCDEFll >> (i % 7)) + i;
    b[i] = (i % 3 ? 1 : -1) * (1ll << (i + 3)) + 7 * i + 1;
  }
  auto *da = device_.Array(a), *db = device_.Array(b), *out = device_.Zeros<int64_t>(128);
  EXPECT_RUNS(device_.Run(*module_, "divide64", {1}, {32}, 0, da, db, out));
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(out[4 * i], a[i] / b[i]);
    ASSERT_EQ(out[4 * i + 1], a[i] % b[i]);
    ASSERT_EQ(static_cast<uint64_t>(out[4 * i + 2]), static_cast<uint64_t>(a[i]) / static_cast<uint64_t>(b[i]));
    ASSERT_EQ(out[4 * i + 3], static_cast<int64_t>((static_cast<__int128>(a[i]) * b[i]) >> 64));
  }
}

struct Big {
  char tag;
  double weight;
  int values[5];
  int16_t s[3];
};

TEST_P(BasicKernels, StructParameterAndLocalArrays) {
  const Big big{5, 77.9, {1, 20, 300, 4000, 50000}, {-1, -2, -3}};
  int* out = device_.Zeros<int>(32);
  Big* copy = device_.Zeros<Big>(1);
  EXPECT_RUNS(device_.Run(*module_, "struct_parameter", {1}, {32}, 0, big, out, copy));
  for (int i = 0; i < 32; ++i) ASSERT_EQ(out[i], big.values[i % 5] + 5 + 77 + big.s[i % 3]);
  EXPECT_EQ(copy->values[4], 50000);
  EXPECT_EQ(copy->s[2], -3);
  const KernelInfo& info = module_->FindKernel("struct_parameter")->info();
  ASSERT_EQ(info.parameters.size(), 3u);
  EXPECT_EQ(info.parameters[0].size_bytes, sizeof(Big));
  EXPECT_EQ(info.parameters[2].offset_bytes, sizeof(Big) + 8);

  const std::vector<int> order = {3, 31, 0, 7, 7, 12, 30, 1};
  int* dorder = device_.Array(order);
  EXPECT_RUNS(device_.Run(*module_, "local_array", {1}, {32}, 0, dorder, out));
  for (int t = 0; t < 32; ++t) {
    int scratch[32], sum = 0;
    for (int i = 0; i < 32; ++i) scratch[i] = i * i + t;
    for (int i = 0; i < 8; ++i) {
      scratch[order[i]] += 7;
      sum = sum * 3 + scratch[order[(i + t) & 7]];
    }
    ASSERT_EQ(out[t], sum) << t;
  }
}

TEST_P(BasicKernels, Templates) {
  std::vector<int> a(32);
  std::vector<double> c(32);
  for (int i = 0; i < 32; ++i) a[i] = i - 9, c[i] = 0.5 * i;
  int *da = device_.Array(a), *db = device_.Zeros<int>(32);
  double *dc = device_.Array(c), *dd = device_.Zeros<double>(32);
  EXPECT_RUNS(device_.Run(*module_, "templates", {1}, {32}, 0, da, db, dc, dd));
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(db[i], a[i] * a[i] * a[i] + a[i] * a[i]);
    ASSERT_DOUBLE_EQ(dd[i], c[i] * c[i] * c[i] + c[i] * c[i]);
  }
}

TEST_P(BasicKernels, SpinLocksBetweenLanesAndBlocks) {
  int* counter = device_.Zeros<int>(1);
  EXPECT_RUNS(device_.Run(*module_, "spin_lock", {6}, {64}, 0, counter));
  EXPECT_EQ(*counter, 6 * 64);
  *counter = 0;
  EXPECT_RUNS(device_.Run(*module_, "spin_lock_outside", {2}, {33}, 0, counter));
  EXPECT_EQ(*counter, 66);
}

TEST_P(BasicKernels, BarriersReachedByParts) {
  int* out = device_.Zeros<int>(3 * 128);
  EXPECT_RUNS(device_.Run(*module_, "barrier_in_branches", {1}, {64}, 0, out));
  for (int i = 0; i < 40; ++i) ASSERT_EQ(out[i], 39 - i < 16 ? 39 - i : 2 * (39 - i)) << i;
  EXPECT_RUNS(device_.Run(*module_, "barrier_counts", {1}, {100}, 0, out));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(out[3 * i], 34);
    ASSERT_EQ(out[3 * i + 1], 1);
    ASSERT_EQ(out[3 * i + 2], 1);
  }
}

TEST_P(BasicKernels, Heap) {
  int** out = device_.Zeros<int*>(32);
  EXPECT_RUNS(device_.Run(*module_, "heap", {1}, {32}, 0, out));
  for (int i = 0; i < 32; i += 2) ASSERT_EQ(out[i][1], i);
  for (int i = 1; i < 32; i += 2) ASSERT_EQ(out[i], nullptr);
}

TEST_P(BasicKernels, FaultsEndTheLaunch) {
  EXPECT_EQ(device_.Run(*module_, "wild_store", {1}, {32}, 0, reinterpret_cast<int*>(0x10000)).error,
            LaunchError::kIllegalAddress);
  EXPECT_EQ(device_.Run(*module_, "wild_store", {1}, {32}, 0, device_.Zeros<int>(20)).error, LaunchError::kIllegalAddress);
  EXPECT_EQ(device_.Run(*module_, "misaligned", {1}, {1}, 0, device_.Zeros<char>(64)).error, LaunchError::kMisalignedAddress);
  EXPECT_EQ(device_.Run(*module_, "traps", {1}, {1}, 0).error, LaunchError::kTrap);
  EXPECT_EQ(device_.Run(*module_, "traps", {1}, {1025}, 0).error, LaunchError::kInvalidValue);
  std::atomic<bool> cancel{false};
  device_.cancel = &cancel;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel = true;
  });
  EXPECT_EQ(device_.Run(*module_, "endless", {4}, {64}, 0, device_.Zeros<int>(1)).error, LaunchError::kCancelled);
  canceller.join();
}

TEST_P(BasicKernels, AssertNamesTheThread) {
  auto module = CompileFile(device_, "assert.ptx");
  ASSERT_NE(module, nullptr);
  EXPECT_RUNS(device_.Run(*module, "asserts", {1}, {32}, 0, 99));
  const LaunchResult result = device_.Run(*module, "asserts", {1}, {32}, 0, 7);
  EXPECT_EQ(result.error, LaunchError::kAssert);
  EXPECT_NE(result.message.find("thread: [7,0,0] Assertion `threadIdx.x != n` failed."), std::string::npos) << result.message;
}

TEST_P(BasicKernels, BlocksThatWaitForEachOther) {
  auto module = CompileFile(device_, "grid_sync.ptx");
  ASSERT_NE(module, nullptr);
  const int n = 40 * 32, rounds = 3;
  std::vector<int> data(n);
  std::iota(data.begin(), data.end(), 0);
  int* d = device_.Array(data);
  device_.cooperative = true;
  EXPECT_RUNS(device_.Run(*module, "grid_rounds", {40}, {32}, 0, d, rounds));
  for (int i = 0; i < n; ++i) ASSERT_EQ(d[i], (i + rounds) % n + rounds);
  EXPECT_EQ(device_.Run(*module, "grid_rounds", {0}, {32}, 0, d, rounds).error, LaunchError::kInvalidValue);
  device_.cooperative = false;
  // Without a cooperative launch there is no grid to synchronise: the kernel traps.
  EXPECT_EQ(device_.Run(*module, "grid_rounds", {2}, {32}, 0, d, rounds).error, LaunchError::kTrap);
  int *flags = device_.Zeros<int>(300), *order = device_.Zeros<int>(300), *next = device_.Zeros<int>(1);
  EXPECT_RUNS(device_.Run(*module, "chain", {300}, {32}, 0, flags, order, next));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(order[i], i);
}

TEST_P(BasicKernels, BarriersInSharedMemory) {
  auto module = CompileFile(device_, "mbarrier.ptx");
  ASSERT_NE(module, nullptr);
  const int rounds = 9;
  std::vector<int> in(rounds * 64);
  std::iota(in.begin(), in.end(), 5);
  int* out = device_.Zeros<int>(128);
  EXPECT_RUNS(device_.Run(*module, "pingpong", {3}, {128}, 0, device_.Array(in), out, rounds));
  for (int i = 0; i < 64; ++i) {
    int sum = 0;
    for (int r = 0; r < rounds; ++r) sum += in[r * 64 + (i + r) % 64];
    ASSERT_EQ(out[i], sum) << i;
  }
  EXPECT_RUNS(device_.Run(*module, "parity", {1}, {96}, 0, out));
  for (int r = 0; r < 4; ++r) EXPECT_EQ(out[r], 96 * (r + 1));
  EXPECT_EQ(out[4], 7);
  std::vector<int> tiles(4 * 4 * 128);
  std::iota(tiles.begin(), tiles.end(), 1);
  EXPECT_RUNS(device_.Run(*module, "copies", {1}, {128}, 0, device_.Array(tiles), out, 4));
  for (int i = 0; i < 128; ++i) {
    int sum = 0;
    for (int tile = 0; tile < 4; ++tile) {
      for (int k = 0; k < 4; ++k) sum += tiles[(tile * 128 + 127 - i) * 4 + k];
    }
    ASSERT_EQ(out[i], sum) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BasicKernels, testing::Values(1, 20261121));

}  // namespace
}  // namespace tessera::emulator
