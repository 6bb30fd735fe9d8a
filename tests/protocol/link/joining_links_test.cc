// Connections that become one link.
#include "protocol/link/striped/joining_links.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "protocol/link/resume_messages.h"
#include "protocol/link/striped/striped_link.h"
#include "tests/support/tcp_pair.h"

namespace tessera {
namespace {

class JoiningLinks : public testing::Test {
 protected:
  // Takes so many connections at once; what became of each.
  std::vector<Result<AcceptedLink>> Finish(size_t connections, uint64_t within_ns = kTcpTestNs) {
    std::vector<Result<AcceptedLink>> results;
    for (size_t i = 0; i < connections; ++i) results.emplace_back(Status(StatusCode::kInternal, "not tried"));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < connections; ++i) {
      threads.emplace_back([&, i, connection = AwaitConnection(*listener_).value()]() mutable {
        results[i] = listener_->Finish(std::move(connection), MonotonicNs() + within_ns, {});
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
  std::vector<Result<AcceptedLink>> Meet(const std::vector<First>& firsts, uint64_t within_ns = kTcpTestNs) {
    std::thread connecting([&] {
      for (const First& first : firsts) {
        links_.push_back(ConnectTcp(listener_->address(), false, MonotonicNs() + kTcpTestNs).value());
        EXPECT_TRUE(
            links_.back()->Send({first.kind, first.index, sizeof(first.token.bytes), first.count, 0}, first.token.bytes).ok());
      }
    });
    std::vector<Result<AcceptedLink>> results = Finish(firsts.size(), within_ns);
    connecting.join();
    return results;
  }

  static size_t CountLinks(const std::vector<Result<AcceptedLink>>& results) {
    size_t links = 0;
    for (const Result<AcceptedLink>& result : results) {
      if (!result.ok() || result.value().link == nullptr) continue;
      ++links;
      result.value().link->Drop();  // nobody waits for what it would still say
    }
    return links;
  }

  std::vector<std::unique_ptr<Link>> links_;  // of Meet()
  std::unique_ptr<LinkListener> listener_ =
      MakeJoiningListener(std::make_unique<TcpListener>(TcpListener::Bind({"127.0.0.1", 0}, false).value()));
};

TEST_F(JoiningLinks, SeveralConnectionsAreOneLink) {
  for (const uint32_t connections : {1u, 2u, 5u}) {
    std::unique_ptr<Link> near;
    std::thread connecting([&] {
      near =
          ConnectJoined(connections, [&] { return ConnectTcp(listener_->address(), false, MonotonicNs() + kTcpTestNs); }).value();
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
    EXPECT_EQ(far->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(got); }).value().number,
              7u);
    EXPECT_EQ(got, std::vector<std::byte>(kFrameBytesMax, std::byte{3}));
    connecting.join();
    near->Drop();
    far->Drop();
  }
}

TEST_F(JoiningLinks, LinksAreToldApart) {
  const ResumeToken one = ResumeToken::Mint(), other = ResumeToken::Mint();
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 0, 2, one}, {FrameKind::kJoin, 1, 2, other}})), 0u);
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 0, 2, other}})), 1u);
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 1, 2, one}})), 1u);
}

// Whoever waits for the rest of a link would keep others from coming.
TEST_F(JoiningLinks, ThoseThatAreLateAreDroppedWhenOthersCome) {
  const ResumeToken token = ResumeToken::Mint();
  constexpr uint64_t kShortNs = 200'000'000;  // long enough for a connection
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 0, 2, token}}, kShortNs)), 0u);
  const uint64_t late_ns = MonotonicNs() + kShortNs;
  while (MonotonicNs() < late_ns) std::this_thread::yield();
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 1, 2, token}})), 0u);
  const auto nothing = [](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); };
  EXPECT_EQ(links_.front()->Receive(nothing).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(CountLinks(Meet({{FrameKind::kJoin, 0, 2, token}})), 1u);  // the second has begun a link of its own
}

// The same connection twice, and two that do not agree on how many there are: the second of them is refused.
TEST_F(JoiningLinks, WhatDoesNotBelongTogetherIsRefused) {
  for (const auto& [index, count] : {std::pair(0u, 3u), std::pair(1u, 4u)}) {
    const ResumeToken token = ResumeToken::Mint();
    int violations = 0;
    for (Result<AcceptedLink>& accepted : Meet({{FrameKind::kJoin, 0, 3, token}, {FrameKind::kJoin, index, count, token}})) {
      if (accepted.status().code() == StatusCode::kProtocolViolation) ++violations;
    }
    EXPECT_EQ(violations, 1);
  }
}

TEST_F(JoiningLinks, WhatIsNoBeginIsRefused) {
  const ResumeToken token;
  for (const First& first : {First{FrameKind::kJoin, 0, 0, token}, First{FrameKind::kJoin, 2, 2, token},
                             First{FrameKind::kJoin, 0, kConnectionsMax + 1, token}, First{FrameKind::kControl, 0, 1, token}}) {
    EXPECT_EQ(Meet({first})[0].status().code(), StatusCode::kProtocolViolation);
  }
}

// As many threads as another user of this machine may still start: a limit that root's threads do not have. In a thread that
// becomes that user for good.
class FewThreads {
 public:
  explicit FewThreads(rlim_t threads) {
    constexpr uid_t kUser = 271'999;  // with no other process
    getrlimit(RLIMIT_NPROC, &before_);
    const rlimit limit{threads + 1, before_.rlim_max};
    setrlimit(RLIMIT_NPROC, &limit);
    syscall(SYS_setresuid, kUser, kUser, kUser);  // of this thread alone, unlike the C library's
  }
  ~FewThreads() { setrlimit(RLIMIT_NPROC, &before_); }

 private:
  rlimit before_{};
};

TEST_F(JoiningLinks, ThreadsThatCannotBeStartedEndALink) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else with no thread but one";
  constexpr size_t kConnections = 3;
  constexpr rlim_t kThreads = 4;  // one for each connection but the first, and each direction
  for (rlim_t threads = 0; threads <= kThreads; ++threads) {
    std::vector<std::unique_ptr<Link>> near, far;
    for (size_t i = 0; i < kConnections; ++i) {
      auto [a, b] = MakeTcpPair();
      near.push_back(std::move(a));
      far.push_back(std::move(b));
    }
    // Whoever is at the other end of any of them is not left waiting.
    std::vector<std::thread> waiting;
    for (auto& link : far) {
      waiting.emplace_back([&link] {
        const auto nothing = [](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); };
        EXPECT_EQ(link->Receive(nothing).status().code(), StatusCode::kUnavailable);
        link->Drop();
      });
    }
    Status status;
    std::thread([&] {
      const FewThreads few(threads);
      status = MakeStripedLink(std::move(near)).status();
    }).join();
    for (std::thread& thread : waiting) thread.join();
    EXPECT_EQ(status.code(), threads < kThreads ? StatusCode::kResourceExhausted : StatusCode::kOk) << threads;
    if (threads < kThreads) {
      EXPECT_NE(status.message().find("ulimit -u"), std::string::npos) << status.message();
    }
  }
}

}  // namespace
}  // namespace tessera
