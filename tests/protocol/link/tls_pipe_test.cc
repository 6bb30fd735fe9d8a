// A TLS connection joined with a socket of this process.
#include "protocol/link/tls/tls_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

std::pair<UniqueFd, UniqueFd> Pair(int flags = SOCK_NONBLOCK) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Of TCP, on the loopback device.
std::pair<UniqueFd, UniqueFd> Network() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), any, size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), any, &size), 0);
  UniqueFd far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(far.get(), any, size), 0);
  UniqueFd near(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_EQ(fcntl(far.get(), F_SETFL, O_NONBLOCK), 0);
  return {std::move(near), std::move(far)};
}

// A pipe that nobody moves yet.
class TlsPipeTurn : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(TlsRole::kServer, authority_.Server());
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    auto [near, far] = Network();
    network_ = near.get();
    Result<PemPair> made = SignCertificate(authority_.pair(), TestAuthority::RequestOf("alice", false));
    peer_ = std::make_unique<RawTlsPeer>(std::move(far), false, *made);
    bool shaken = false;
    std::thread shaking([&] { shaken = peer_->ShakeHands(); });
    Result<TlsSession> session = ShakeHands(near.get(), TlsParties{.us = **identity}, MonotonicNs() + kTcpTestNs);
    shaking.join();
    ASSERT_TRUE(session.ok() && shaken);
    auto [plain, ours] = Pair();
    plain_ = std::move(ours);
    pipe_.emplace(std::move(near), std::move(plain), *session);
  }

  TestAuthority authority_;
  std::unique_ptr<RawTlsPeer> peer_;
  int network_ = -1;  // the pipe's
  UniqueFd plain_;
  std::optional<TlsPipe> pipe_;
};

class TlsPipeTest : public TlsPipeTurn {
 protected:
  void SetUp() override {
    TlsPipeTurn::SetUp();
    carrier_ = std::thread([pipe = *std::exchange(pipe_, std::nullopt)]() mutable {
      std::vector<pollfd> ready;
      while (pipe.Move(ready, MonotonicNs())) {
        ready.clear();
        pipe.Watch(&ready);
        const uint64_t again_ns = pipe.again_ns();
        poll(ready.data(), ready.size(), again_ns == kNoDeadline ? -1 : again_ns == 0 ? 0 : 50);
      }
    });
  }
  void TearDown() override {
    plain_.reset();
    peer_.reset();
    if (carrier_.joinable()) carrier_.join();
  }
  // So many bytes from the plain side, fewer at its end.
  std::string Hear(size_t bytes) {
    std::string heard, some(65536, 0);
    while (heard.size() < bytes) {
      pollfd ready = {plain_.get(), POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000)) != 1) break;
      const ssize_t got = recv(plain_.get(), some.data(), std::min(some.size(), bytes - heard.size()), 0);
      if (got <= 0) break;
      heard.append(some, 0, static_cast<size_t>(got));
    }
    return heard;
  }
  void Say(const std::string& words) {
    for (size_t at = 0; at < words.size();) {
      pollfd ready = {plain_.get(), POLLOUT, 0};
      ASSERT_EQ(poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000)), 1);
      const ssize_t sent = send(plain_.get(), words.data() + at, words.size() - at, MSG_NOSIGNAL);
      if (sent > 0) at += static_cast<size_t>(sent);
    }
  }

  std::thread carrier_;
};

std::string Text(size_t bytes) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

// However much one connection has to say, the others have their turn soon.
TEST_F(TlsPipeTurn, TakesTwoRecordsEachWay) {
  const std::string text = Text(100'000);
  ASSERT_EQ(send(plain_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  ASSERT_TRUE(peer_->Send(text));
  ASSERT_TRUE(pipe_->Move({}, MonotonicNs()));
  EXPECT_EQ(pipe_->again_ns(), 0U);
  int to_peer = 0, to_process = 0;
  ASSERT_EQ(ioctl(peer_->socket(), FIONREAD, &to_peer), 0);
  ASSERT_EQ(ioctl(plain_.get(), FIONREAD, &to_process), 0);
  for (const int bytes : {to_peer, to_process}) {
    EXPECT_GT(bytes, 16'000);
    EXPECT_LT(bytes, 3 * 16'384);
  }
}

// Of a peer that has gone the process hears in a few turns; time does not have to pass.
TEST_F(TlsPipeTurn, WhosePeerHasGoneEndsOnceTheProcessHasHeard) {
  constexpr linger kReset = {.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(peer_->socket(), SOL_SOCKET, SO_LINGER, &kReset, sizeof(kReset)), 0);
  peer_.reset();
  ASSERT_EQ(send(plain_.get(), "words", 5, MSG_NOSIGNAL), 5);
  const uint64_t now_ns = MonotonicNs();
  int turns = 0;
  while (pipe_->Move({}, now_ns) && turns < 10) ++turns;
  EXPECT_LT(turns, 10);
  pipe_.reset();
  char words[8];
  EXPECT_EQ(recv(plain_.get(), words, sizeof(words), 0), 0);
}

TEST_F(TlsPipeTest, CarriesBothWays) {
  const std::string text = Text(1'000'000);
  std::thread saying([&] { EXPECT_TRUE(peer_->Send(text)); });
  EXPECT_EQ(Hear(text.size()), text);
  saying.join();
  std::thread saying_back([&] { Say(text); });
  EXPECT_EQ(peer_->Receive(text.size()), text);
  saying_back.join();
  EXPECT_TRUE(peer_->RequestNewKeys());
  Say("after new keys");
  EXPECT_EQ(peer_->Receive(14), "after new keys");
}

TEST_F(TlsPipeTest, NothingWaitsForAnAcknowledgement) {
  int on = 0;
  socklen_t size = sizeof(on);
  ASSERT_EQ(getsockopt(network_, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_NE(on, 0);
}

TEST_F(TlsPipeTest, BothEndsAreTold) {
  Say("the last words");
  plain_.reset();
  EXPECT_EQ(peer_->Receive(100), "the last words");
  carrier_.join();
}

TEST_F(TlsPipeTest, APeerThatHasGoneEndsIt) {
  EXPECT_TRUE(peer_->Send("the last words"));
  peer_->Cut();
  EXPECT_EQ(Hear(100), "the last words");
  plain_.reset();
  carrier_.join();
}

// The process has ended, and the peer reads nothing.
TEST_F(TlsPipeTest, WhoDoesNotReadIsNotWaitedFor) {
  const std::string text = Text(65536);
  while (send(plain_.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0) usleep(1000);
  const uint64_t begin_ns = MonotonicNs();
  plain_.reset();
  carrier_.join();
  EXPECT_LT(MonotonicNs() - begin_ns, 10 * TlsPipe::kEndNs);
}

TEST_F(TlsPipeTest, GarbageEndsIt) {
  EXPECT_GT(send(peer_->socket(), "no record at all", 16, MSG_NOSIGNAL), 0);
  EXPECT_EQ(Hear(100), "");
  plain_.reset();
  carrier_.join();
}

}  // namespace
}  // namespace tessera
