// Connections that become one link.
#include "protocol/link/joining_links.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "protocol/link/resume_messages.h"
#include "protocol/link/striped_link.h"
#include "tests/support/tcp_pair.h"

namespace tessera {
namespace {

class JoiningLinks : public testing::Test {
 protected:
  static constexpr uint64_t kShortNs = 300'000'000;

  // Takes so many connections at once; what became of each.
  std::vector<Result<AcceptedLink>> Finish(size_t connections, uint64_t within_ns = kTcpTestNs) {
    std::vector<Result<AcceptedLink>> results;
    for (size_t i = 0; i < connections; ++i) results.emplace_back(Status(StatusCode::kInternal, "not tried"));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < connections; ++i) {
      threads.emplace_back([&, i, connection = AwaitConnection(*listener_).value()]() mutable {
        results[i] = listener_->Finish(std::move(connection), MonotonicNs() + within_ns);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // Connections that begin with these frames and a token, one after the other.
  struct First {
    FrameKind kind;
    uint32_t index;
    uint64_t count;
    ResumeToken token;
  };
  std::vector<Result<AcceptedLink>> Meet(const std::vector<First>& firsts) {
    std::thread connecting([&] {
      std::vector<std::unique_ptr<Link>> links;
      for (const First& first : firsts) {
        links.push_back(ConnectTcp(listener_->address(), false, MonotonicNs() + kTcpTestNs).value());
        EXPECT_TRUE(links.back()
                        ->Send({first.kind, first.index, sizeof(first.token.bytes), first.count, 0}, first.token.bytes)
                        .ok());
      }
      std::byte nothing;
      for (auto& link : links) {  // until the other end is gone
        (void)link->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(&nothing, 0); })
            .ok();
      }
    });
    std::vector<Result<AcceptedLink>> results = Finish(firsts.size(), kShortNs);
    for (Result<AcceptedLink>& result : results) EXPECT_FALSE(result.ok() && result->link != nullptr);
    connecting.join();
    return results;
  }

  std::unique_ptr<LinkListener> listener_ =
      MakeJoiningListener(std::make_unique<TcpListener>(TcpListener::Bind({"127.0.0.1", 0}, false).value()));
};

TEST_F(JoiningLinks, SeveralConnectionsAreOneLink) {
  for (const uint32_t connections : {1u, 2u, 5u}) {
    std::unique_ptr<Link> near;
    std::thread connecting([&] {
      near = ConnectJoined(connections, [&] {
               return ConnectTcp(listener_->address(), false, MonotonicNs() + kTcpTestNs);
             }).value();
      const std::vector<std::byte> payload(kFrameBytesMax, std::byte{3});
      EXPECT_TRUE(near->Send({FrameKind::kRing, 0, payload.size(), 0, 7}, payload).ok());
    });
    std::unique_ptr<Link> far;
    for (Result<AcceptedLink>& accepted : Finish(connections)) {
      ASSERT_TRUE(accepted.ok()) << accepted.status().message();
      if (accepted->link == nullptr) continue;
      EXPECT_EQ(far, nullptr);
      far = std::move(accepted->link);
    }
    ASSERT_NE(far, nullptr);
    std::vector<std::byte> got(kFrameBytesMax);
    EXPECT_EQ(
        far->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(got); }).value().number,
        7u);
    EXPECT_EQ(got, std::vector<std::byte>(kFrameBytesMax, std::byte{3}));
    connecting.join();
    near->Drop();
  }
}

TEST_F(JoiningLinks, OneThatDoesNotComeIsMissedInTime) {
  const ResumeToken token = ResumeToken::Mint();
  for (Result<AcceptedLink>& accepted : Meet({{FrameKind::kJoin, 0, 3, token}, {FrameKind::kJoin, 2, 3, token}})) {
    EXPECT_EQ(accepted.status().code(), StatusCode::kTimedOut);
  }
}

TEST_F(JoiningLinks, LinksAreToldApart) {
  for (Result<AcceptedLink>& accepted :
       Meet({{FrameKind::kJoin, 0, 2, ResumeToken::Mint()}, {FrameKind::kJoin, 1, 2, ResumeToken::Mint()}})) {
    EXPECT_EQ(accepted.status().code(), StatusCode::kTimedOut);
  }
}

// The same connection twice, and two that do not agree on how many there are: the second of them is refused, and the
// first waits in vain.
TEST_F(JoiningLinks, WhatDoesNotBelongTogetherIsRefused) {
  for (const auto& [index, count] : {std::pair(0u, 3u), std::pair(1u, 4u)}) {
    const ResumeToken token = ResumeToken::Mint();
    int violations = 0;
    for (Result<AcceptedLink>& accepted :
         Meet({{FrameKind::kJoin, 0, 3, token}, {FrameKind::kJoin, index, count, token}})) {
      if (accepted.status().code() == StatusCode::kProtocolViolation) ++violations;
    }
    EXPECT_EQ(violations, 1);
  }
}

TEST_F(JoiningLinks, WhatIsNoBeginIsRefused) {
  const ResumeToken token;
  for (const First& first :
       {First{FrameKind::kJoin, 0, 0, token}, First{FrameKind::kJoin, 2, 2, token},
        First{FrameKind::kJoin, 0, kStripesMax + 1, token}, First{FrameKind::kControl, 0, 1, token}}) {
    EXPECT_EQ(Meet({first})[0].status().code(), StatusCode::kProtocolViolation);
  }
}

}  // namespace
}  // namespace tessera
