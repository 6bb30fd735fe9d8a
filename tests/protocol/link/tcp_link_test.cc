// What a TCP link has beyond other links: addresses, errors of connecting, peers that are no links.
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tcp/tcp_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "protocol/link/tcp/tcp_endpoint.h"
#include "tests/support/loopback.h"
#include "tests/support/tcp_pair.h"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(LinkAddress, IsTakenApart) {
  Result<LinkAddress> address = LinkAddress::Parse("tcp://gpu7.example:4180");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "gpu7.example");
  EXPECT_EQ(address->port, 4180);
  EXPECT_EQ(address->Url(), "tcp://gpu7.example:4180");
  address = LinkAddress::Parse("tcp://[fe80::1]:65535");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "fe80::1");
  EXPECT_EQ(address->Url(), "tcp://[fe80::1]:65535");
}

TEST(LinkAddress, WhatIsNoneSaysTheForm) {
  for (const char* url : {"", "tcp:", "tcp://", "tcp://host", "tcp://host:", "tcp://:1", "tcp://host:65536", "tcp://host:-1",
                          "tcp://host:1x", "tcp://::1:5", "tcp://[::1]5", "tcp://[::1", "tcp://[]:1", "unix:/x", "TCP://h:1"}) {
    const Status status = LinkAddress::Parse(url).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(status.message(), HasSubstr("tcp://HOST:PORT"));
  }
  EXPECT_FALSE(LinkAddress::Parse("tcp://" + std::string(LinkAddress::kHostBytesMax + 1, 'a') + ":1").ok());
}

TEST(TcpEndpoint, LoopbackIsThisHostAlone) {
  const auto first = [](const char* host) { return Resolve({host, 1}).value().front(); };
  EXPECT_TRUE(first("127.0.0.1").IsLoopback());
  EXPECT_TRUE(first("127.9.9.9").IsLoopback());
  EXPECT_TRUE(first("::1").IsLoopback());
  EXPECT_TRUE(first("::ffff:127.0.0.1").IsLoopback());
  for (const char* host : {"0.0.0.0", "10.0.0.1", "128.0.0.1", "::", "fe80::1", "::ffff:10.0.0.1"}) {
    const LinkAddress address = {host, 1};
    EXPECT_FALSE(first(host).IsLoopback()) << host;
    EXPECT_EQ(CheckSecure(address, {first("127.0.0.1"), first(host)}, false).code(), StatusCode::kPermissionDenied) << host;
    EXPECT_TRUE(CheckSecure(address, {first(host)}, true).ok()) << host;
  }
}

TEST(TcpConnect, EveryFailureHasItsSentence) {
  // A port that was free a moment ago.
  const LinkAddress closed = TcpListener::Bind({"127.0.0.1", 0}, false).value().address();
  Status status = ConnectTcp(closed, false, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("nobody listens at " + closed.Url()));
  status = ConnectTcp({"no-such-host.invalid", 1}, true, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no-such-host.invalid"));
  // Refused before a packet is sent there (a documentation address, RFC 5737).
  status = ConnectTcp({"192.0.2.1", 1}, false, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("--insecure"));
}

TEST(TcpConnect, ASilentListenerIsGivenUp) {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  const Status status = ConnectTcp(listener->address(), false, MonotonicNs() + 50'000'000).status();
  EXPECT_EQ(status.code(), StatusCode::kTimedOut);
  EXPECT_THAT(status.message(), HasSubstr("no answer from " + listener->address().Url()));
}

TEST(TcpConnect, BothFamilies) {
  for (const char* host : {"127.0.0.1", "::1", "localhost"}) {
    Result<TcpListener> listener = TcpListener::Bind({host, 0}, false);
    if (!listener.ok()) continue;  // a host without IPv6
    std::thread accepting([&] {
      Result<UniqueFd> connection = AwaitConnection(*listener);
      ASSERT_TRUE(connection.ok());
      EXPECT_TRUE(AcceptTcp(std::move(*connection), Soon()).ok());
    });
    Result<std::unique_ptr<Link>> link = ConnectTcp(listener->address(), false, Soon());
    EXPECT_TRUE(link.ok()) << host << ": " << link.status().message();
    if (link.ok()) link->reset();  // the other end waits for it
    accepting.join();
  }
}

// Answers a connection with `words`, then leaves.
Status ConnectToOneThatSays(std::string_view words) {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  std::thread answering([&] {
    Result<UniqueFd> connection = AwaitConnection(*listener);
    ASSERT_TRUE(connection.ok());
    EXPECT_EQ(send(connection->get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    shutdown(connection->get(), SHUT_WR);
    pollfd left = {connection->get(), POLLRDHUP, 0};
    EXPECT_EQ(poll(&left, 1, static_cast<int>(kTcpTestNs / 1'000'000)), 1);
  });
  const Status status = ConnectTcp(listener->address(), false, Soon()).status();
  answering.join();
  return status;
}

TEST(TcpConnect, AnotherProgramIsNoGateway) {
  for (const std::string_view words : {"HTTP/1.1 400 Bad Request\r\n\r\n", "220", ""}) {
    const Status status = ConnectToOneThatSays(words);
    EXPECT_EQ(status.code(), StatusCode::kProtocolViolation) << words;
    EXPECT_THAT(status.message(), HasSubstr("is no tessera-gateway"));
  }
}

TEST(TcpConnect, WhoIsHungUpOnBeforeAWordTriesAgain) {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  std::thread answering([&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(AwaitConnection(*listener).ok());  // closed at once
    Result<UniqueFd> connection = AwaitConnection(*listener);
    ASSERT_TRUE(connection.ok());
    EXPECT_TRUE(AcceptTcp(std::move(*connection), Soon()).ok());
  });
  const Status status = ConnectTcp(listener->address(), false, Soon()).status();
  EXPECT_TRUE(status.ok()) << status.message();
  answering.join();
}

TEST(TcpConnect, AnotherVersionIsNamed) {
  constexpr std::string_view kOther("TLNK\x63\0\0\0\0\0\0\0\0\0\0\0", 16);
  const Status status = ConnectToOneThatSays(kOther);
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), HasSubstr("version 99"));
}

// What AcceptTcp makes of a peer that says `words` and then, when `leaves`, leaves.
Status AcceptOneThatSays(std::string_view words, bool leaves, uint64_t deadline_ns) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  UniqueFd peer(ends[0]);
  EXPECT_EQ(send(peer.get(), words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
  if (leaves) peer.reset();
  return AcceptTcp(UniqueFd(ends[1]), deadline_ns).status();
}

TEST(TcpAccept, WhatIsNoPeerOfOurs) {
  EXPECT_EQ(AcceptOneThatSays("GET / HTTP/1.1\r\n\r\n", false, Soon()).code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(AcceptOneThatSays("GET /", false, Soon()).code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(AcceptOneThatSays("", true, Soon()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(AcceptOneThatSays("TLNK", true, Soon()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(AcceptOneThatSays("TLNK", false, MonotonicNs() + 20'000'000).code(), StatusCode::kTimedOut);
  EXPECT_EQ(AcceptOneThatSays({"TLNK\x63\0\0\0\0\0\0\0\0\0\0\0", 16}, false, Soon()).code(), StatusCode::kVersionMismatch);
}

TEST(TcpListen, WhereItCannotSaysWhy) {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  ASSERT_TRUE(listener.ok());
  EXPECT_THAT(TcpListener::Bind(listener->address(), false).status().message(), HasSubstr("somebody listens"));
  EXPECT_THAT(TcpListener::Bind({"192.0.2.1", 0}, true).status().message(), HasSubstr("no address of this host"));
  EXPECT_EQ(TcpListener::Bind({"0.0.0.0", 0}, false).status().code(), StatusCode::kPermissionDenied);
}

// A connected link, and the bare socket at the other end of it.
struct HalfLink {
  HalfLink() {
    Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
    std::thread connecting([&] { link = ConnectTcp(listener->address(), false, Soon()).value(); });
    socket = AwaitConnection(*listener).value();
    constexpr std::string_view kPreamble("TLNK\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    EXPECT_EQ(send(socket.get(), kPreamble.data(), kPreamble.size(), 0), 16);
    connecting.join();
  }
  Status Receive() {
    std::vector<std::byte> payload;
    return link
        ->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
          payload.resize(header.bytes);
          return std::span(payload);
        })
        .status();
  }
  std::unique_ptr<Link> link;
  UniqueFd socket;
};

TEST(TcpFrames, ALengthBeyondTheBoundIsRefusedBeforeMemoryIsTaken) {
  HalfLink half;
  for (const uint64_t bytes : {kFrameBytesMax + 1, UINT64_MAX}) {
    const FrameHeader header = {FrameKind::kRing, 0, bytes, 0, 0};
    ASSERT_EQ(send(half.socket.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    EXPECT_EQ(half.Receive().code(), StatusCode::kProtocolViolation);
  }
}

TEST(TcpFrames, AConnectionThatEndsInsideAFrameIsLost) {
  const FrameHeader header = {FrameKind::kRing, 0, 100, 0, 0};
  for (const size_t bytes : {size_t{1}, sizeof(header) - 1, sizeof(header)}) {
    HalfLink half;
    ASSERT_EQ(send(half.socket.get(), &header, bytes, 0), static_cast<ssize_t>(bytes));
    half.socket.reset();
    EXPECT_EQ(half.Receive().code(), StatusCode::kUnavailable);
    EXPECT_EQ(half.Receive().code(), StatusCode::kUnavailable);
  }
}

TEST(TcpFrames, BytesMayComeOneByOne) {
  HalfLink half;
  const FrameHeader header = {FrameKind::kRing, 3, 5, 6, 7};
  std::thread sending([&] {
    std::vector<std::byte> bytes(sizeof(header) + 5, std::byte{9});
    std::memcpy(bytes.data(), &header, sizeof(header));
    for (const std::byte& one : bytes) ASSERT_EQ(send(half.socket.get(), &one, 1, 0), 1);
  });
  std::vector<std::byte> payload(5);
  Result<FrameHeader> got =
      half.link->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(payload); });
  sending.join();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->number, 7u);
  EXPECT_EQ(payload, std::vector<std::byte>(5, std::byte{9}));
}

// In a network of its own, whose only cable is cut: neither end says a word any more.
TEST(TcpFrames, ADeadHostIsNoticedIdleOrNot) {
  bool possible = true;
  std::thread in_its_own_network([&] {
    possible = unshare(CLONE_NEWNET) == 0 && SetLoopback(true);
    if (!possible) return;
    auto [near, far] = MakeTcpPair();
    auto [sender, receiver] = MakeTcpPair();
    ASSERT_TRUE(SetLoopback(false));
    const uint64_t begin_ns = MonotonicNs();
    std::thread sending([&sender = *sender] {
      const std::vector<std::byte> payload(1000);
      Status status;
      while (status.ok()) status = sender.Send({FrameKind::kRing, 0, payload.size(), 0, 0}, payload);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      EXPECT_THAT(status.message(), HasSubstr("does not answer any more"));
    });
    const Status status =
        near->Receive([](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); }).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("does not answer any more"));
    sending.join();
    EXPECT_LT(MonotonicNs() - begin_ns, (kTcpSilenceMsMax + 7'000) * uint64_t{1'000'000});
  });
  in_its_own_network.join();
  if (!possible) GTEST_SKIP() << "needs to be allowed to make a network namespace";
}

}  // namespace
}  // namespace tessera
