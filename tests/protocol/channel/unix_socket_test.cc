#include "protocol/channel/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string AsText(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class UnixSocket : public testing::Test {
 protected:
  UnixSocket() {
    char name[] = "/tmp/tessera-socket-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/s";
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_), 0);
    one_.reset(pair_[0]);
    other_.reset(pair_[1]);
  }
  ~UnixSocket() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
  int pair_[2];
  UniqueFd one_, other_;
};

TEST_F(UnixSocket, ListensForItsOwnUserAlone) {
  Result<UnixListener> listener = UnixListener::Bind(path_);
  ASSERT_TRUE(listener.ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(listener->Accept().status().code(), StatusCode::kTimedOut);
  Result<UniqueFd> client = ConnectUnix(path_);
  ASSERT_TRUE(client.ok());
  Result<UniqueFd> server = listener->Accept();
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(PeerOf(server->get())->pid, getpid());
  EXPECT_TRUE(CheckPeerUser(server->get()).ok());
  ASSERT_TRUE(SendMessage(client->get(), AsBytes("hello"), {}, kNoDeadline).ok());
  EXPECT_EQ(AsText(ReceiveMessage(server->get(), 100, kNoDeadline)->bytes), "hello");
}

// How a user without rights gets on with a listener that another one has.
enum class Seen { kConnected, kNotAllowed, kOther };
Seen AsAnother(uid_t uid, gid_t gid, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    // By the kernel alone: the library's functions change all threads.
    if (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setresgid, gid, gid, gid) != 0) _exit(3);
    if (syscall(SYS_setresuid, uid, uid, uid) != 0) _exit(3);
    const Result<UniqueFd> connected = ConnectUnix(path);
    _exit(connected.ok() ? 0 : connected.status().code() == StatusCode::kPermissionDenied ? 1 : 2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) return Seen::kOther;
  return WEXITSTATUS(status) == 0 ? Seen::kConnected : WEXITSTATUS(status) == 1 ? Seen::kNotAllowed : Seen::kOther;
}

TEST_F(UnixSocket, LetsInWhomItsModeAndGroupName) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  constexpr uid_t kStranger = 70001;
  constexpr gid_t kGroup = 70002, kNoGroup = 70003;
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  struct stat info {};
  {
    Result<UnixListener> listener = UnixListener::Bind(path_, {0660, kGroup});
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0660u);
    EXPECT_EQ(info.st_gid, kGroup);
    EXPECT_EQ(AsAnother(kStranger, kNoGroup, path_), Seen::kNotAllowed);
    EXPECT_EQ(AsAnother(kStranger, kGroup, path_), Seen::kConnected);
    EXPECT_TRUE(listener->Accept().ok());
    EXPECT_EQ(listener->Accept().status().code(), StatusCode::kTimedOut);
  }
  {
    Result<UnixListener> listener = UnixListener::Bind(path_, {0666, {}});
    ASSERT_TRUE(listener.ok());
    EXPECT_EQ(AsAnother(kStranger, kNoGroup, path_), Seen::kConnected);
    EXPECT_TRUE(listener->Accept().ok());
  }
  // A file that somebody has changed since lets nobody in.
  Result<UnixListener> listener = UnixListener::Bind(path_);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(AsAnother(kStranger, kNoGroup, path_), Seen::kNotAllowed);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(AsAnother(kStranger, kNoGroup, path_), Seen::kConnected);
  EXPECT_EQ(listener->Accept().status().code(), StatusCode::kPermissionDenied);
}

TEST_F(UnixSocket, OneServerPerPathAndStaleFilesGo) {
  {
    Result<UnixListener> listener = UnixListener::Bind(path_);
    ASSERT_TRUE(listener.ok());
    EXPECT_EQ(UnixListener::Bind(path_).status().code(), StatusCode::kUnavailable);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  {
    // A server that ended without cleaning up.
    UniqueFd dead(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(ConnectUnix(path_).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(UnixListener::Bind(path_).ok());
}

TEST_F(UnixSocket, WhatIsNoSocketStays) {
  UniqueFd file(open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(UnixListener::Bind(path_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocket, ConnectingSaysWhatToDo) {
  const Status missing = ConnectUnix(folder_ + "/none").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("start the server"), std::string::npos);
  EXPECT_EQ(ConnectUnix(std::string(200, 'x')).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(UnixListener::Bind(std::string(108, 'x')).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ConnectUnix("").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(UnixSocket, PassesDescriptors) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  UniqueFd reader(pipe_fds[0]), writer(pipe_fds[1]);
  const int fds[] = {writer.get()};
  ASSERT_TRUE(SendMessage(one_.get(), AsBytes("fd"), fds, kNoDeadline).ok());
  Result<SocketMessage> message = ReceiveMessage(other_.get(), 10, kNoDeadline);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->fds.size(), 1u);
  EXPECT_NE(fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(write(message->fds[0].get(), "x", 1), 1);
  char got = 0;
  EXPECT_EQ(read(reader.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST_F(UnixSocket, AMessageThatIsLeftIsTheNextOneUntilItIsDropped) {
  auto [ours, theirs] = MakeSocketPair().value();
  const int fd = other_.get();
  const std::byte first{1};
  const std::byte second{2};
  ASSERT_TRUE(SendMessage(ours.get(), std::span(&first, 1), std::span(&fd, 1), 0).ok());
  ASSERT_TRUE(SendMessage(ours.get(), std::span(&second, 1), {}, 0).ok());
  for (int look = 0; look < 3; ++look) {
    Result<SocketMessage> message = ReceiveMessage(theirs.get(), 10, 0, FromSocket::kLeave);
    ASSERT_TRUE(message.ok());
    EXPECT_EQ(message->bytes, std::vector<std::byte>{first});
    EXPECT_EQ(message->fds.size(), 1u);  // a duplicate each time
  }
  DropMessage(theirs.get());
  EXPECT_EQ(ReceiveMessage(theirs.get(), 10, 0)->bytes, std::vector<std::byte>{second});
  EXPECT_EQ(ReceiveMessage(theirs.get(), 10, 0).status().code(), StatusCode::kTimedOut);
}

TEST_F(UnixSocket, BoundsAndDeadlinesHold) {
  EXPECT_EQ(ReceiveMessage(other_.get(), 10, 0).status().code(), StatusCode::kTimedOut);
  EXPECT_EQ(ReceiveMessage(other_.get(), 10, MonotonicNs() + 2'000'000).status().code(), StatusCode::kTimedOut);
  ASSERT_TRUE(SendMessage(one_.get(), AsBytes("eleven bytes"), {}, kNoDeadline).ok());
  EXPECT_EQ(ReceiveMessage(other_.get(), 10, kNoDeadline).status().code(), StatusCode::kProtocolViolation);
  // A peer that does not read.
  const std::vector<std::byte> large(100'000);
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = SendMessage(one_.get(), large, {}, MonotonicNs() + 2'000'000);
  EXPECT_EQ(status.code(), StatusCode::kTimedOut);
}

TEST_F(UnixSocket, TheEndIsNoticedAfterTheLastWords) {
  EXPECT_FALSE(SocketHungUp(other_.get()));
  ASSERT_TRUE(SendMessage(one_.get(), AsBytes("last"), {}, kNoDeadline).ok());
  one_.reset();
  EXPECT_TRUE(SocketHungUp(other_.get()));
  EXPECT_EQ(AsText(ReceiveMessage(other_.get(), 10, kNoDeadline)->bytes), "last");
  EXPECT_EQ(ReceiveMessage(other_.get(), 10, kNoDeadline).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(SendMessage(other_.get(), AsBytes("x"), {}, kNoDeadline).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
