// How copies are cut into pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "client-stub/transfers/staged_transfer.h"

namespace tessera {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<uint64_t> Pieces(uint64_t bytes, uint64_t largest, bool to_host) {
  std::vector<uint64_t> pieces;
  for (uint64_t done = 0; done < bytes; done += pieces.back()) pieces.push_back(NextPieceBytes(bytes, done, largest, to_host));
  return pieces;
}

TEST(PieceSizes, TheFirstToTheDeviceIsShort) {
  EXPECT_EQ(Pieces(kMiB, 2 * kMiB, false), (std::vector<uint64_t>{256 * kKiB, 768 * kKiB}));
  EXPECT_EQ(Pieces(6 * kMiB, 2 * kMiB, false), (std::vector<uint64_t>{256 * kKiB, 768 * kKiB, 2 * kMiB, 2 * kMiB, kMiB}));
}

TEST(PieceSizes, TheLastFromTheDeviceIsShort) {
  EXPECT_EQ(Pieces(kMiB, 2 * kMiB, true), (std::vector<uint64_t>{768 * kKiB, 256 * kKiB}));
  EXPECT_EQ(Pieces(5 * kMiB, 2 * kMiB, true), (std::vector<uint64_t>{2 * kMiB, 2 * kMiB, 768 * kKiB, 256 * kKiB}));
}

TEST(PieceSizes, ASmallCopyIsOne) {
  for (const bool to_host : {false, true}) {
    EXPECT_EQ(Pieces(1, 2 * kMiB, to_host), std::vector<uint64_t>{1});
    EXPECT_EQ(Pieces(512 * kKiB - 1, 2 * kMiB, to_host), std::vector<uint64_t>{512 * kKiB - 1});
  }
}

TEST(PieceSizes, NoneIsEmptyOrTooLargeAndTogetherTheyAreTheCopy) {
  for (const uint64_t largest : {4 * kKiB, 128 * kKiB, 2 * kMiB, 32 * kMiB}) {
    for (uint64_t bytes = 1; bytes < 100 * kMiB; bytes = bytes * 17 / 16 + 1) {
      for (const bool to_host : {false, true}) {
        uint64_t together = 0;
        for (const uint64_t piece : Pieces(bytes, largest, to_host)) {
          ASSERT_TRUE(piece > 0 && piece <= largest) << bytes << ", " << largest;
          together += piece;
        }
        ASSERT_EQ(together, bytes) << largest;
      }
    }
  }
}

// What a large copy takes of the driver's queue.
TEST(PieceSizes, ALargeCopyHasFew) {
  for (const bool to_host : {false, true}) EXPECT_LE(Pieces(512 * kMiB, 32 * kMiB, to_host).size(), 20u);
}

}  // namespace
}  // namespace tessera
