// Every kind of link keeps the same promises.
#include "protocol/link/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/link/impaired/impaired_link.h"
#include "protocol/link/in_process_link.h"
#include "tests/support/striped_pair.h"
#include "tests/support/tcp_pair.h"
#include "tests/support/tls_pair.h"
#include "tests/support/ucx_pair.h"

namespace tessera {
namespace {

// A row for each kind of link; `there` says whether this machine has what it takes.
struct Kind {
  const char* name;
  std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> (*make)();
  bool impaired = false;
  bool (*there)() = [] { return true; };
};

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeSmallInProcessLink() { return MakeInProcessLink(size_t{256} << 10); }

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeStripes() {
  return MakeStripedPair(3, [](size_t) { return MakeSmallInProcessLink(); });
}

// Connections that are late by different times.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeUnevenStripes() {
  return MakeStripedPair(3, [](size_t i) {
    auto [near, far] = MakeSmallInProcessLink();
    const Impairment impairment{.delay_ns = (i == 1 ? 0 : 1 + i) * 300'000, .jitter_ns = i * 200'000, .seed = 5 + i};
    return std::pair(MakeImpairedLink(std::move(near), impairment), MakeImpairedLink(std::move(far), impairment));
  });
}

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeImpairedAtOneEnd() {
  auto [near, far] = MakeSmallInProcessLink();
  return {MakeImpairedLink(std::move(near), {.delay_ns = 100'000, .jitter_ns = 200'000}), std::move(far)};
}

constexpr Kind kKinds[] = {
    {"in_process", MakeSmallInProcessLink},
    {"impaired", MakeSmallInProcessLink, true},
    {"impaired_at_one_end", MakeImpairedAtOneEnd},
    {"tcp", MakeTcpPair},
    {"impaired_tcp", MakeTcpPair, true},
    {"tls", [] { return MakeTlsPair(); }},
    {"impaired_tls", [] { return MakeTlsPair(); }, true},
    {"tls_openssl", [] { return MakeTlsPair(OpensslTuningOfTests()); }},
    {"tls_to_openssl", [] { return MakeTlsPair(TuningOfTests(), OpensslTuningOfTests()); }},
    {"tls_from_openssl", [] { return MakeTlsPair(OpensslTuningOfTests(), TuningOfTests()); }},
    {"striped", MakeStripes},
    {"striped_uneven", MakeUnevenStripes},
    {"striped_tcp", [] { return MakeStripedPair(2, [](size_t) { return MakeTcpPair(); }); }},
    {"striped_tls", [] { return MakeStripedPair(2, [](size_t) { return MakeTlsPair(); }); }},
    {"striped_tls_openssl", [] { return MakeStripedPair(2, [](size_t) { return MakeTlsPair(OpensslTuningOfTests()); }); }},
    {"ucx", MakeUcxPair, false, HaveUcx},
    {"impaired_ucx", MakeUcxPair, true, HaveUcx},
};

class LinkTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!GetParam().there()) GTEST_SKIP() << "UCX is not installed (libucx0)";
    std::tie(near_, far_) = GetParam().make();
    ASSERT_TRUE(near_ && far_);
    if (!GetParam().impaired) return;
    const Impairment impairment{.delay_ns = 100'000, .jitter_ns = 200'000, .stall_ns = 2'000'000, .stall_one_in = 100};
    impaired_near_ = MakeImpairedLink(*near_, impairment);
    impaired_far_ = MakeImpairedLink(*far_, impairment);
  }
  // Together: each end waits up to a second for the other to end as well.
  void TearDown() override {
    std::thread ending([this] {
      impaired_far_.reset();
      far_.reset();
    });
    impaired_near_.reset();
    near_.reset();
    ending.join();
  }
  Link& near() { return impaired_near_ ? *impaired_near_ : *near_; }
  Link& far() { return impaired_far_ ? *impaired_far_ : *far_; }

  static Result<FrameHeader> Take(Link& link, std::vector<std::byte>* payload) {
    return link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
      payload->resize(header.bytes);
      return std::span(*payload);
    });
  }

  std::unique_ptr<Link> near_, far_, impaired_near_, impaired_far_;
};

FrameHeader Header(uint64_t number, size_t bytes) { return {FrameKind::kRing, 1, bytes, number * 3, number}; }

TEST_P(LinkTest, FramesArriveOnceWholeAndInOrder) {
  constexpr uint64_t kFrames = 500;
  std::thread sender([&] {
    for (uint64_t i = 0; i < kFrames; ++i) {
      std::vector<std::byte> payload(i * 977 % 100'000, static_cast<std::byte>(i));
      ASSERT_TRUE(near().Send(Header(i, payload.size()), payload).ok());
      std::fill(payload.begin(), payload.end(), std::byte{0xee});  // the link does not look at it any more
    }
  });
  std::vector<std::byte> payload;
  for (uint64_t i = 0; i < kFrames; ++i) {
    Result<FrameHeader> header = Take(far(), &payload);
    ASSERT_TRUE(header.ok());
    ASSERT_EQ(header->number, i);
    ASSERT_EQ(header->position, i * 3);
    ASSERT_EQ(payload, std::vector<std::byte>(i * 977 % 100'000, static_cast<std::byte>(i)));
  }
  sender.join();
}

TEST_P(LinkTest, BothDirectionsAtOnce) {
  constexpr uint64_t kFrames = 300;
  const auto send = [](Link& link) {
    for (uint64_t i = 0; i < kFrames; ++i) {
      const std::vector<std::byte> payload(i * 7'919 % 60'000, static_cast<std::byte>(i));
      ASSERT_TRUE(link.Send(Header(i, payload.size()), payload).ok());
    }
  };
  const auto receive = [](Link& link) {
    std::vector<std::byte> payload;
    for (uint64_t i = 0; i < kFrames; ++i) {
      Result<FrameHeader> header = Take(link, &payload);
      ASSERT_TRUE(header.ok()) << header.status().message();
      ASSERT_EQ(header->number, i);
      ASSERT_EQ(payload, std::vector<std::byte>(i * 7'919 % 60'000, static_cast<std::byte>(i)));
    }
  };
  std::thread threads[] = {std::thread(send, std::ref(near())), std::thread(send, std::ref(far())),
                           std::thread(receive, std::ref(near())), std::thread(receive, std::ref(far()))};
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LinkTest, WhatWasSentArrivesBeforeTheEnd) {
  ASSERT_TRUE(near().Send(Header(1, 0), {}).ok());
  near().Close();
  std::vector<std::byte> payload;
  EXPECT_TRUE(Take(far(), &payload).ok());
  EXPECT_EQ(Take(far(), &payload).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(near().Send(Header(2, 0), {}).code(), StatusCode::kUnavailable);
}

// An end leaves while the other is still sending to it: what it said before has precedence over what it did not read.
TEST_P(LinkTest, WhatWasSentArrivesThoughTheSenderReadsNothing) {
  const std::vector<std::byte> payload(100'000, std::byte{7});
  ASSERT_TRUE(far().Send(Header(1, payload.size()), payload).ok());
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(near().Send(Header(i, 1000), std::span(payload).first(1000)).ok());
  near().Close();
  std::thread closing([this] {
    impaired_near_.reset();
    near_.reset();
  });
  std::vector<std::byte> got;
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(Take(far(), &got).value().number, i);
  EXPECT_EQ(Take(far(), &got).status().code(), StatusCode::kUnavailable);
  far().Close();
  closing.join();
}

TEST_P(LinkTest, TheLargestFrameArrives) {
  const std::vector<std::byte> payload(kFrameBytesMax, std::byte{5});
  std::thread sender([&] { EXPECT_TRUE(near().Send(Header(1, payload.size()), payload).ok()); });
  std::vector<std::byte> got;
  EXPECT_TRUE(Take(far(), &got).ok());
  sender.join();
  EXPECT_EQ(got, payload);
}

// Around the sizes from which on links go about it in another way.
TEST_P(LinkTest, LargeAndSmallFramesKeepTheirOrder) {
  constexpr uint64_t kFrames = 60;
  const auto size_of = [](uint64_t i) {
    constexpr uint64_t kSizes[] = {0,  kStripedBytesMin - 1, kStripedBytesMin, 300'001,
                                   10, kFrameBytesMax - 1,   8 << 10,          kFrameBytesMax};
    return kSizes[i % std::size(kSizes)];
  };
  const auto byte_of = [](uint64_t frame, uint64_t at) { return static_cast<std::byte>(frame * 31 + at * 7 + (at >> 12)); };
  std::thread sender([&] {
    for (uint64_t i = 0; i < kFrames; ++i) {
      std::vector<std::byte> payload(size_of(i));
      for (uint64_t at = 0; at < payload.size(); ++at) payload[at] = byte_of(i, at);
      ASSERT_TRUE(
          (i % 3 == 0 ? near().SendSoon(Header(i, payload.size()), payload) : near().Send(Header(i, payload.size()), payload))
              .ok());
      std::fill(payload.begin(), payload.end(), std::byte{0xee});
    }
    ASSERT_TRUE(near().Flush().ok());
  });
  std::vector<std::byte> payload;
  for (uint64_t i = 0; i < kFrames; ++i) {
    Result<FrameHeader> header = Take(far(), &payload);
    ASSERT_TRUE(header.ok()) << header.status().message();
    ASSERT_EQ(header->number, i);
    ASSERT_EQ(header->kind, FrameKind::kRing);
    ASSERT_EQ(header->position, i * 3);
    ASSERT_EQ(payload.size(), size_of(i));
    uint64_t wrong = 0;
    for (uint64_t at = 0; at < payload.size(); ++at) wrong += payload[at] != byte_of(i, at);
    ASSERT_EQ(wrong, 0u) << i;
  }
  sender.join();
}

TEST_P(LinkTest, CloseEndsAThreadThatWaitsForRoom) {
  if (impaired_near_ || std::string_view(GetParam().name) == "striped_uneven")
    return;  // its room is on its own side, and what is in it arrives first
  std::thread sender([&] {
    const std::vector<std::byte> payload(kFrameBytesMax);
    Status status;
    while (status.ok()) status = near().Send(Header(1, payload.size()), payload);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  });
  // Whether the sender is waiting by now or not: it ends.
  near().Close();
  sender.join();
}

TEST_P(LinkTest, CloseEndsAThreadThatWaits) {
  std::thread receiver([&] {
    std::vector<std::byte> payload;
    EXPECT_EQ(Take(near(), &payload).status().code(), StatusCode::kUnavailable);
  });
  near().Close();
  receiver.join();
}

TEST_P(LinkTest, AFailureToPlaceIsTheReceivers) {
  ASSERT_TRUE(near().Send(Header(1, 0), {}).ok());
  const auto refuse = [](const FrameHeader&) -> Result<std::span<std::byte>> {
    return Status(StatusCode::kProtocolViolation, "no");
  };
  EXPECT_EQ(far().Receive(refuse).status().code(), StatusCode::kProtocolViolation);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkTest, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StripedLink, TheLossOfOneConnectionIsTheLossOfAll) {
  for (const size_t cut : {0, 1, 2}) {
    auto [near, far] = MakeStripedPair(3, [&](size_t i) {
      auto [near, far] = MakeInProcessLink();
      const Impairment impairment{.cut_after_bytes = i == cut ? uint64_t{3} << 20 : 0};
      return std::pair(MakeImpairedLink(std::move(near), impairment), std::move(far));
    });
    std::thread sender([&near = *near] {
      const std::vector<std::byte> payload(kFrameBytesMax);
      Status sent;
      for (uint64_t i = 0; sent.ok(); ++i) sent = near.Send(Header(i, payload.size()), payload);
      EXPECT_EQ(sent.code(), StatusCode::kUnavailable);
      EXPECT_EQ(near.Send(Header(0, 0), {}).code(), StatusCode::kUnavailable);
    });
    std::vector<std::byte> got(kFrameBytesMax);
    Status received;
    uint64_t frames = 0;
    for (; received.ok(); ++frames) {
      received = far->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
                      EXPECT_EQ(header.number, frames);
                      return std::span(got).first(header.bytes);
                    })
                     .status();
    }
    EXPECT_EQ(received.code(), StatusCode::kUnavailable);
    EXPECT_GE(frames, 8u);
    far->Close();
    sender.join();
  }
}

TEST(StripedLink, ConnectionsThatDoNotBelongTogetherAreRefused) {
  std::unique_ptr<Link> near[3], far[3];
  for (int i = 0; i < 3; ++i) std::tie(near[i], far[i]) = MakeInProcessLink();
  const auto of = [](std::unique_ptr<Link>& first, std::unique_ptr<Link>& second) {
    std::vector<std::unique_ptr<Link>> links;
    links.push_back(std::move(first));
    links.push_back(std::move(second));
    return MakeStripedLink(std::move(links)).value();
  };
  const std::unique_ptr<Link> one = of(near[0], near[1]), other = of(far[0], far[2]);
  const std::vector<std::byte> payload(kStripedBytesMin);
  ASSERT_TRUE(one->Send(Header(1, payload.size()), payload).ok());
  // What the connection brings that the sender does not know of.
  FrameHeader header = Header(2, 5);
  ASSERT_TRUE(near[2]->Send(header, std::span(payload).first(5)).ok());
  std::vector<std::byte> got(payload.size());
  const Status received =
      other->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(got); }).status();
  EXPECT_EQ(received.code(), StatusCode::kProtocolViolation);
}

}  // namespace
}  // namespace tessera
