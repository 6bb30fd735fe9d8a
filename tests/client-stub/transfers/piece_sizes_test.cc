// How copies are cut into pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "client-stub/transfers/staged_transfer.h"

namespace tessera {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<uint64_t> Pieces(uint64_t bytes, uint64_t largest) {
  std::vector<uint64_t> pieces;
  for (uint64_t done = 0; done < bytes; done += pieces.back()) pieces.push_back(NextPieceBytes(bytes, done, largest));
  return pieces;
}

TEST(PieceSizes, TheFirstIsShortAndTheyGrow) {
  EXPECT_EQ(Pieces(6 * kMiB, 2 * kMiB), (std::vector<uint64_t>{256 * kKiB, 768 * kKiB, 2 * kMiB, 2 * kMiB, kMiB}));
  EXPECT_EQ(Pieces(32 * kMiB, 16 * kMiB), (std::vector<uint64_t>{256 * kKiB, 768 * kKiB, 3 * kMiB, 12 * kMiB, 16 * kMiB}));
}

TEST(PieceSizes, ACopyOfAMegabyteIsTwoHalves) {
  EXPECT_EQ(Pieces(kMiB, 2 * kMiB), (std::vector<uint64_t>{512 * kKiB, 512 * kKiB}));
  EXPECT_EQ(Pieces(kMiB - 1, 2 * kMiB), (std::vector<uint64_t>{512 * kKiB, 512 * kKiB - 1}));
  EXPECT_EQ(Pieces(512 * kKiB, 2 * kMiB), (std::vector<uint64_t>{256 * kKiB, 256 * kKiB}));
}

TEST(PieceSizes, ASmallCopyIsOne) {
  EXPECT_EQ(Pieces(1, 2 * kMiB), std::vector<uint64_t>{1});
  EXPECT_EQ(Pieces(512 * kKiB - 1, 2 * kMiB), std::vector<uint64_t>{512 * kKiB - 1});
}

TEST(PieceSizes, NoneIsEmptyOrTooLargeAndTogetherTheyAreTheCopy) {
  for (const uint64_t largest : {4 * kKiB, 128 * kKiB, 2 * kMiB, 32 * kMiB}) {
    for (uint64_t bytes = 1; bytes < 100 * kMiB; bytes = bytes * 17 / 16 + 1) {
      uint64_t together = 0;
      for (const uint64_t piece : Pieces(bytes, largest)) {
        ASSERT_TRUE(piece > 0 && piece <= largest) << bytes << ", " << largest;
        together += piece;
      }
      ASSERT_EQ(together, bytes) << largest;
    }
  }
}

// What a large copy takes of the driver's queue.
TEST(PieceSizes, ALargeCopyHasFew) { EXPECT_LE(Pieces(512 * kMiB, 32 * kMiB).size(), 20u); }

}  // namespace
}  // namespace tessera
