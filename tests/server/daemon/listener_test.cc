#include "server/daemon/listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

class ListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "listenerXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static UniqueFd Connect(const std::string& path) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
    return socket;
  }

  std::string directory_;
  std::string path_;
};

TEST(ParseListenAddress, TakesUnixPathsOnly) {
  EXPECT_EQ(ParseListenAddress("unix:/run/t.sock").value(), "/run/t.sock");
  EXPECT_FALSE(ParseListenAddress("tcp:0.0.0.0:1").ok());
  EXPECT_FALSE(ParseListenAddress("/run/t.sock").ok());
  EXPECT_FALSE(ParseListenAddress("unix:").ok());
  EXPECT_TRUE(ParseListenAddress("unix:" + std::string(107, 'x')).ok());
  EXPECT_FALSE(ParseListenAddress("unix:" + std::string(108, 'x')).ok());
}

TEST_F(ListenerTest, AcceptsItsOwnUserAndIsPrivate) {
  auto listener = Listener::Bind(path_);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  pid_t peer = -1;
  EXPECT_FALSE(listener->Accept(&peer).valid());
  UniqueFd client = Connect(path_);
  ASSERT_TRUE(client.valid());
  EXPECT_TRUE(listener->Accept(&peer).valid());
  EXPECT_EQ(peer, getpid());
}

TEST_F(ListenerTest, RemovesAStaleSocket) {
  {
    UniqueFd dead(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  auto listener = Listener::Bind(path_);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  EXPECT_TRUE(Connect(path_).valid());
}

TEST_F(ListenerTest, RefusesALiveSocketAndLeavesItWorking) {
  auto first = Listener::Bind(path_);
  ASSERT_TRUE(first.ok());
  auto second = Listener::Bind(path_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(path_), std::string::npos);
  EXPECT_TRUE(Connect(path_).valid());
}

TEST_F(ListenerTest, RefusesAPathThatIsNoSocketAndKeepsTheFile) {
  std::ofstream(path_) << "data";
  auto listener = Listener::Bind(path_);
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(std::filesystem::file_size(path_), 4u);
}

TEST_F(ListenerTest, CloseRemovesOnlyItsOwnSocketFile) {
  auto listener = Listener::Bind(path_);
  ASSERT_TRUE(listener.ok());
  unlink(path_.c_str());
  std::ofstream(path_) << "another";  // somebody put a new file there
  listener->Close();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, NoMoreConnectionsAfterClose) {
  auto listener = Listener::Bind(path_);
  ASSERT_TRUE(listener.ok());
  listener->Close();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(Connect(path_).valid());
}

}  // namespace
}  // namespace tessera
