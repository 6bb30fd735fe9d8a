#include "programs/default_socket.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace tessera {
namespace {

class DefaultSocketTest : public testing::Test {
 protected:
  DefaultSocketTest() {
    place_ = testing::TempDir() + "/default_socket_" + std::to_string(getpid());
    std::filesystem::remove_all(place_);
    unsetenv("TESSERA_SOCKET_DIR");
  }
  ~DefaultSocketTest() override {
    unsetenv("TESSERA_SOCKET_DIR");
    std::filesystem::remove_all(place_);
  }
  struct stat Look() const {
    struct stat info {};
    EXPECT_EQ(stat(place_.c_str(), &info), 0);
    return info;
  }
  std::string place_;
};

TEST_F(DefaultSocketTest, TheHostsIsRoots) {
  setenv("XDG_RUNTIME_DIR", "/run/user/1000", 1);
  EXPECT_EQ(HostSocketPath(DefaultSocket::kServer), "/run/tessera/tessera.sock");
  EXPECT_EQ(HostSocketPath(DefaultSocket::kPlacer), "/run/tessera/placer.sock");
  const bool is_root = geteuid() == 0;
  EXPECT_EQ(UserSocketPath(DefaultSocket::kServer), is_root ? "/run/tessera/tessera.sock" : "/run/user/1000/tessera.sock");
  EXPECT_EQ(UserSocketPath(DefaultSocket::kPlacer), is_root ? "/run/tessera/placer.sock" : "/run/user/1000/tessera-placer.sock");
}

TEST_F(DefaultSocketTest, WithoutADirectoryForSocketsAUserHasOneInTmp) {
  if (geteuid() == 0) GTEST_SKIP() << "root's is the host's";
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(UserSocketPath(DefaultSocket::kServer), "/tmp/tessera-" + std::to_string(geteuid()) + "/tessera.sock");
}

TEST_F(DefaultSocketTest, ADirectoryOfOthersIsNotUsed) {
  ASSERT_EQ(mkdir(place_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(place_.c_str(), 0777), 0);
  EXPECT_NE(MakeSocketDirectory(place_ + "/tessera.sock", std::nullopt).message().find("others may write to it"),
            std::string::npos);
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(place_.c_str(), 0700), 0);
    ASSERT_EQ(chown(place_.c_str(), 71010, 71010), 0);
    EXPECT_NE(MakeSocketDirectory(place_ + "/tessera.sock", std::nullopt).message().find("another user's"), std::string::npos);
  }
}

TEST_F(DefaultSocketTest, AnotherDirectoryIsEverybodys) {
  setenv("TESSERA_SOCKET_DIR", "/elsewhere", 1);
  EXPECT_EQ(HostSocketPath(DefaultSocket::kServer), "/elsewhere/tessera.sock");
  EXPECT_EQ(UserSocketPath(DefaultSocket::kServer), "/elsewhere/tessera.sock");
  EXPECT_EQ(UserSocketPath(DefaultSocket::kPlacer), "/elsewhere/placer.sock");
  setenv("TESSERA_SOCKET_DIR", "not/absolute", 1);
  EXPECT_EQ(HostSocketPath(DefaultSocket::kServer), "/run/tessera/tessera.sock");
}

TEST_F(DefaultSocketTest, TheHostsDirectoryIsForEverybodyWhateverTheUmaskIs) {
  setenv("TESSERA_SOCKET_DIR", place_.c_str(), 1);
  const mode_t before = umask(0077);
  EXPECT_TRUE(MakeSocketDirectory(UserSocketPath(DefaultSocket::kServer), std::nullopt).ok());
  umask(before);
  EXPECT_EQ(Look().st_mode & 07777, 0755U);
  EXPECT_TRUE(MakeSocketDirectory(UserSocketPath(DefaultSocket::kServer), std::nullopt).ok());
}

TEST_F(DefaultSocketTest, AnAdministratorsModeStays) {
  setenv("TESSERA_SOCKET_DIR", place_.c_str(), 1);
  ASSERT_EQ(mkdir(place_.c_str(), 0750), 0);
  EXPECT_TRUE(MakeSocketDirectory(UserSocketPath(DefaultSocket::kServer), getegid()).ok());
  EXPECT_EQ(Look().st_mode & 07777, 0750U);
}

TEST_F(DefaultSocketTest, TheGroupGetsTheHostsDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  setenv("TESSERA_SOCKET_DIR", place_.c_str(), 1);
  EXPECT_TRUE(MakeSocketDirectory(UserSocketPath(DefaultSocket::kServer), 71010).ok());
  EXPECT_EQ(Look().st_gid, 71010U);
}

TEST_F(DefaultSocketTest, AnotherOneIsThisUsersAlone) {
  EXPECT_TRUE(MakeSocketDirectory(place_ + "/tessera.sock", std::nullopt).ok());
  EXPECT_EQ(Look().st_mode & 07777, 0700U);
}

TEST_F(DefaultSocketTest, WhatCannotBeMadeIsNamed) {
  const Status made = MakeSocketDirectory(place_ + "/deeper/tessera.sock", std::nullopt);
  EXPECT_NE(made.message().find("cannot make the directory " + place_ + "/deeper for the socket"), std::string::npos)
      << made.message();
}

}  // namespace
}  // namespace tessera
