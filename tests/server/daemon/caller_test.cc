// Whom the daemon takes a connection for, and what that one may see.
#include "server/daemon/caller.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera {
namespace {

constexpr pid_t kGateway = 77;
const std::vector<std::string> kNobody;

PeerCredentials Process(pid_t pid, uid_t uid) { return {pid, uid, uid}; }

TEST(Caller, IsTheUserOfThePeer) {
  const Caller alice = CallerOf(Process(5, 70001), kGateway, "", kNobody);
  EXPECT_EQ(alice.holder, "uid:70001");
  EXPECT_FALSE(alice.is_remote);
  EXPECT_FALSE(alice.sees_all);
  EXPECT_TRUE(Sees(alice, "uid:70001"));
  EXPECT_FALSE(Sees(alice, "uid:70002"));
  EXPECT_FALSE(Sees(alice, "anonymous"));
}

TEST(Caller, OwnGatewaySaysWhoItsClientsAre) {
  const Caller laptop = CallerOf(Process(kGateway, 0), kGateway, "name:laptop", kNobody);
  EXPECT_EQ(laptop.holder, "name:laptop");
  EXPECT_TRUE(laptop.is_remote);
  EXPECT_FALSE(laptop.sees_all) << "though its gateway is root's";
  EXPECT_EQ(CallerOf(Process(kGateway, 0), kGateway, "anonymous", kNobody).holder, "anonymous");
  // One that was taken over makes nobody a user of this host.
  for (const std::string said : {"", "uid:0", "uid:70001"}) {
    const Caller caller = CallerOf(Process(kGateway, 0), kGateway, said, {"uid:70001"});
    EXPECT_EQ(caller.holder, "anonymous") << said;
    EXPECT_FALSE(caller.sees_all) << said;
  }
}

TEST(Caller, NobodyElseIsBelieved) {
  for (const pid_t gateway : {-1, 77}) {
    const Caller caller = CallerOf(Process(5, 70001), gateway, "name:boss", {"name:boss"});
    EXPECT_EQ(caller.holder, "uid:70001");
    EXPECT_FALSE(caller.is_remote);
    EXPECT_FALSE(caller.sees_all);
  }
  // A gateway of an administrator's own speaks for others.
  EXPECT_TRUE(CallerOf(Process(5, 0), kGateway, "", kNobody).sees_all);
  EXPECT_FALSE(CallerOf(Process(5, 0), kGateway, "anonymous", kNobody).sees_all);
  EXPECT_FALSE(CallerOf(Process(5, 70001), kGateway, "anonymous", {"uid:70001"}).sees_all);
}

// Two of them have the same number, which may also be what the process has itself.
TEST(Caller, UsersWithoutANumberHaveProvedNothing) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    const Caller caller = CallerOf(Process(5, geteuid()), kGateway, "", {"uid:65534"});
    _exit(caller.holder == "anonymous" && !caller.sees_all ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this process may not have a user namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Caller, AdministratorsSeeAll) {
  const std::vector<std::string> administrators = {"uid:70001", "name:boss"};
  EXPECT_TRUE(Sees(CallerOf(Process(5, 70001), kGateway, "", administrators), "uid:70002"));
  EXPECT_TRUE(Sees(CallerOf(Process(kGateway, 70003), kGateway, "name:boss", administrators), "uid:70002"));
  EXPECT_FALSE(Sees(CallerOf(Process(kGateway, 70003), kGateway, "name:other", administrators), "uid:70002"));
  EXPECT_TRUE(CallerOf(Process(5, geteuid()), kGateway, "", kNobody).sees_all);
}

TEST(Caller, AdministratorsAreNamedAsUsersOrHolders) {
  EXPECT_EQ(ParseAdministrator("root").value(), "uid:0");
  EXPECT_EQ(ParseAdministrator("uid:70001").value(), "uid:70001");
  EXPECT_EQ(ParseAdministrator("name:boss").value(), "name:boss");
  for (const std::string bad : {"", "no-such-user-here", "uid:", "name:", "anonymous"}) {
    EXPECT_EQ(ParseAdministrator(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tessera
