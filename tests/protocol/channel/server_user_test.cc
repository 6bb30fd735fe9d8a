#include "protocol/channel/server_user.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr uid_t kNobody = 65534;  // and what the kernel says of whom this user namespace does not know

TEST(ServerUserTest, RootTheOwnUserAndWhoIsNamed) {
  EXPECT_EQ(JudgeServerUser(0, 1000, true, ""), ServerUser::kTrusted);
  EXPECT_EQ(JudgeServerUser(1000, 1000, true, ""), ServerUser::kTrusted);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, ""), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(1001, 0, true, ""), ServerUser::kOther);  // root is careful too
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "1001"), ServerUser::kTrusted);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "any"), ServerUser::kTrusted);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "1002"), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "1001 "), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "no-such-user-here"), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(1001, 1000, true, "root"), ServerUser::kOther);
}

TEST(ServerUserTest, WhoHasNoNumberHereIsNotKnown) {
  EXPECT_EQ(JudgeServerUser(kNobody, 1000, false, ""), ServerUser::kUnknown);
  EXPECT_EQ(JudgeServerUser(kNobody, 1000, true, ""), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(1001, 1000, false, ""), ServerUser::kOther);
  EXPECT_EQ(JudgeServerUser(kNobody, 1000, false, "any"), ServerUser::kTrusted);
}

}  // namespace
}  // namespace tessera
