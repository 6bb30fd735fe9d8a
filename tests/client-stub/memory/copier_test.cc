#include "client-stub/copier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tessera {
namespace {

// Copies into the middle of a frame and looks at every byte, also those around.
void CopyAndCompare(size_t bytes, unsigned seed) {
  constexpr size_t kFrame = 64;
  std::vector<unsigned char> from(bytes), to(bytes + 2 * kFrame, 0xAB);
  std::mt19937 random(seed);
  for (size_t i = 0; i < bytes; i += 997) from[i] = static_cast<unsigned char>(random());
  Copier::Process().Copy(to.data() + kFrame, from.data(), bytes);
  ASSERT_TRUE(std::equal(from.begin(), from.end(), to.begin() + kFrame));
  for (size_t i = 0; i < kFrame; ++i) {
    ASSERT_EQ(to[i], 0xAB);
    ASSERT_EQ(to[bytes + kFrame + i], 0xAB);
  }
}

TEST(CopierTest, CopiesEverySizeExactly) {
  for (const size_t bytes : {size_t{0}, size_t{1}, Copier::kParallelBytesMin - 1, Copier::kParallelBytesMin,
                             Copier::kParallelBytesMin + 1, 5 * Copier::kPartBytes + 3, size_t{9} << 20}) {
    CopyAndCompare(bytes, static_cast<unsigned>(bytes));
  }
}

TEST(CopierTest, CopiesOfSeveralThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (unsigned round = 0; round < 6; ++round) CopyAndCompare((size_t{1} << 20) + t * 300001 + round, t * 100 + round);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera
