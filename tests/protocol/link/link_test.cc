// Every kind of link keeps the same promises.
#include "protocol/link/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/link/impaired_link.h"
#include "protocol/link/in_process_link.h"

namespace tessera {
namespace {

enum class Kind { kInProcess, kImpaired };

class LinkTest : public testing::TestWithParam<Kind> {
 protected:
  LinkTest() {
    std::tie(near_, far_) = MakeInProcessLink(size_t{256} << 10);
    if (GetParam() == Kind::kInProcess) return;
    const Impairment impairment{.delay_ns = 100'000, .jitter_ns = 200'000, .stall_ns = 2'000'000, .stall_one_in = 100};
    impaired_near_ = MakeImpairedLink(*near_, impairment);
    impaired_far_ = MakeImpairedLink(*far_, impairment);
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

TEST_P(LinkTest, WhatWasSentArrivesBeforeTheEnd) {
  ASSERT_TRUE(near().Send(Header(1, 0), {}).ok());
  near().Close();
  std::vector<std::byte> payload;
  EXPECT_TRUE(Take(far(), &payload).ok());
  EXPECT_EQ(Take(far(), &payload).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(near().Send(Header(2, 0), {}).code(), StatusCode::kUnavailable);
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

INSTANTIATE_TEST_SUITE_P(Kinds, LinkTest, testing::Values(Kind::kInProcess, Kind::kImpaired),
                         [](const auto& info) { return info.param == Kind::kInProcess ? "in_process" : "impaired"; });

TEST(ImpairedLink, DelaysAndLimitsTheRate) {
  auto [near, far] = MakeInProcessLink();
  auto slow = MakeImpairedLink(*near, {.delay_ns = 20'000'000, .bytes_per_second = 1'000'000});
  const std::vector<std::byte> payload(50'000);
  const uint64_t begin_ns = MonotonicNs();
  ASSERT_TRUE(slow->Send(Header(1, payload.size()), payload).ok());
  ASSERT_TRUE(slow->Send(Header(2, payload.size()), payload).ok());
  std::vector<std::byte> got(payload.size());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(far->Receive([&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(got); }).ok());
  }
  EXPECT_GE(MonotonicNs() - begin_ns, 20'000'000u + 50'000'000u);
}

}  // namespace
}  // namespace tessera
