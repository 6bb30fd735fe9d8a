// Reconciling registered memory with its mirror.
#include "client-stub/memory/host_mirrors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tessera {
namespace {

class ReconcileTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 3 * 4096 + 77;
  std::vector<std::byte> host_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> device_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> last_ = std::vector<std::byte>(kBytes);
  void Meet() { Reconcile(host_.data(), device_.data(), last_.data(), kBytes); }
};

TEST_F(ReconcileTest, EachSideGetsWhatTheOtherChanged) {
  host_[0] = std::byte{1};
  host_[kBytes - 1] = std::byte{2};
  device_[1] = std::byte{3};  // the neighbour
  device_[8192] = std::byte{4};
  Meet();
  EXPECT_EQ(device_[0], std::byte{1});
  EXPECT_EQ(device_[kBytes - 1], std::byte{2});
  EXPECT_EQ(host_[1], std::byte{3});
  EXPECT_EQ(host_[8192], std::byte{4});
  EXPECT_EQ(host_, device_);
  EXPECT_EQ(host_, last_);
}

TEST_F(ReconcileTest, AnOldValueThatComesBackCounts) {
  device_[5] = std::byte{9};
  Meet();
  host_[5] = std::byte{0};
  Meet();
  EXPECT_EQ(device_[5], std::byte{0});
}

TEST_F(ReconcileTest, OfWhatBothChangedTheDeviceStays) {
  host_[6] = std::byte{1};
  device_[6] = std::byte{2};
  Meet();
  EXPECT_EQ(host_[6], std::byte{2});
  EXPECT_EQ(device_[6], std::byte{2});
}

TEST_F(ReconcileTest, RandomTurnsLoseNothing) {
  std::mt19937 random(7);
  std::vector<std::byte> expected(kBytes);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<std::byte>& writer = turn % 2 == 0 ? host_ : device_;
    for (int i = 0; i < 50; ++i) {
      const size_t at = random() % kBytes;
      expected[at] = writer[at] = std::byte(random() % 3);
    }
    Meet();
    ASSERT_EQ(host_, expected);
    ASSERT_EQ(device_, expected);
  }
}

}  // namespace
}  // namespace tessera
