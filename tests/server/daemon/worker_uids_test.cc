// User ids that workers have for themselves: never two at once, whichever server asks.
#include "server/daemon/children/worker_uids.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tessera {
namespace {

class WorkerUidsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "uidsXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

uid_t UidOf(const Result<WorkerUids::Lease>& lease) { return lease.ok() ? lease.value().uid : 0; }

TEST_F(WorkerUidsTest, OneEach) {
  WorkerUids uids({1000, 1002}, directory_ + "/locks");
  const auto a = uids.Take();
  const auto b = uids.Take();
  const auto c = uids.Take();
  EXPECT_EQ(UidOf(a), 1000u);
  EXPECT_EQ(UidOf(b), 1001u);
  EXPECT_EQ(UidOf(c), 1002u);
  const auto none = uids.Take();
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("larger range"), std::string::npos);
}

TEST_F(WorkerUidsTest, OneThatWasGivenBackComesLate) {
  WorkerUids uids({1000, 1002}, directory_);
  EXPECT_EQ(UidOf(uids.Take()), 1000u);
  EXPECT_EQ(UidOf(uids.Take()), 1001u);
  const auto held = uids.Take();
  EXPECT_EQ(UidOf(held), 1002u);
  EXPECT_EQ(UidOf(uids.Take()), 1000u);
  EXPECT_EQ(UidOf(uids.Take()), 1001u);
  EXPECT_EQ(UidOf(uids.Take()), 1000u) << "the third is held";
}

TEST_F(WorkerUidsTest, ServersOfOneMachineShareNone) {
  WorkerUids one({1000, 1003}, directory_);
  WorkerUids other({1001, 1005}, directory_);
  const auto a = one.Take();
  const auto b = one.Take();
  EXPECT_EQ(UidOf(b), 1001u);
  EXPECT_EQ(UidOf(other.Take()), 1002u);
}

TEST_F(WorkerUidsTest, NoPlaceForLocks) {
  WorkerUids uids({1000, 1003}, "/proc/no-such-place");
  EXPECT_FALSE(uids.Take().ok());
}

TEST(UidRanges, AsTheyAreWritten) {
  EXPECT_EQ(ParseUidRange("200000-264999").value().size(), 65000u);
  EXPECT_EQ(ParseUidRange("7-7").value().size(), 1u);
  for (const char* wrong : {"", "1", "1-", "-1", "0-5", "5-4", "1-4294967294", "a-b", "1-2-3", "1 -2", "65000-65540"}) {
    EXPECT_FALSE(ParseUidRange(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace tessera
