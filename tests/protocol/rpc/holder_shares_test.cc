#include "protocol/rpc/holder_shares.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Gone = std::optional<HolderShares::Id>;

class HolderSharesTest : public testing::Test {
 protected:
  // So many of a holder come; who went for the last of them. They are numbered from 0 on, all together.
  Gone Come(const std::string& holder, int count = 1) {
    Gone gone;
    for (int i = 0; i < count; ++i) gone = shares_.Come(next_++, holder);
    return gone;
  }

  HolderShares shares_{{.of_holder = 4, .in_all = 8}};
  HolderShares::Id next_ = 0;
};

TEST_F(HolderSharesTest, BeyondHisBoundAHoldersOwnOldestGoes) {
  EXPECT_EQ(Come("alice"), Gone());
  EXPECT_EQ(Come("mallory", 4), Gone());
  EXPECT_EQ(Come("mallory"), Gone(1));
  EXPECT_EQ(Come("mallory"), Gone(2));
  EXPECT_EQ(shares_.OfHolder("mallory"), 4u);
  EXPECT_EQ(shares_.OfHolder("alice"), 1u);
}

TEST_F(HolderSharesTest, BeyondTheBoundForAllTheOldestOfWhoHasMostGoes) {
  Come("alice", 2);
  Come("mallory", 4);
  Come("bob", 2);
  EXPECT_EQ(Come("alice"), Gone(2));    // of mallory, who had four
  EXPECT_EQ(Come("carol"), Gone(0));    // alice and mallory had three: the first of these
  EXPECT_EQ(Come("mallory"), Gone(3));  // he has most himself
  EXPECT_EQ(shares_.count(), 8u);
}

TEST_F(HolderSharesTest, WhoHasAsFewAsTheOthersGoesHimself) {
  for (const char* holder : {"a", "b", "c", "d", "e", "f", "g", "h"}) EXPECT_EQ(Come(holder), Gone());
  EXPECT_EQ(Come("late"), Gone(8));
  shares_.Leave(3);
  EXPECT_EQ(Come("late"), Gone());
  EXPECT_EQ(Come("late"), Gone(9));
}

TEST_F(HolderSharesTest, WhoIsUnknownMayLeave) {
  Come("alice", 2);
  shares_.Leave(7);
  shares_.Leave(0);
  shares_.Leave(0);
  EXPECT_EQ(shares_.count(), 1u);
  EXPECT_EQ(Come("alice", 3), Gone());
  EXPECT_EQ(Come("alice"), Gone(1));
}

}  // namespace
}  // namespace tessera
