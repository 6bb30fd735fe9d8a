// A link that is made worse: by how much, in which direction, and how that is written.
#include "protocol/link/impaired/impaired_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/link/in_process_link.h"

namespace tessera {
namespace {

FrameHeader HeaderOf(uint64_t number, size_t bytes) { return {FrameKind::kRing, 1, bytes, 0, number}; }

Result<FrameHeader> Take(Link& link, std::vector<std::byte>* payload) {
  return link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    payload->resize(header.bytes);
    return std::span(*payload);
  });
}

TEST(ImpairedLink, TakesItsTimeOnTheWireAndThenTheDelay) {
  auto [near, far] = MakeInProcessLink();
  auto slow = MakeImpairedLink(*near, {.delay_ns = 20'000'000, .bytes_per_second = 1'000'000});
  std::vector<std::byte> payload(25'000);
  const uint64_t begin_ns = MonotonicNs();
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(slow->Send(HeaderOf(i, payload.size()), payload).ok());
  for (uint64_t i = 1; i <= 2; ++i) {
    ASSERT_TRUE(Take(*far, &payload).ok());
    EXPECT_GE(MonotonicNs() - begin_ns, 20'000'000 + i * 25'000'000);
  }
}

// The least of many: what the link adds by itself, whoever else uses this machine. Many are taken only where that is needed.
TEST(ImpairedLink, AShortDelayIsNoLongerThanItShouldBe) {
  constexpr uint64_t kDelayNs = 25'000;
  constexpr uint64_t kMostNs = 2 * kDelayNs + 60'000;
  auto [near, far] = MakeInProcessLink();
  auto impaired = MakeImpairedLink(std::move(near), {.delay_ns = kDelayNs});
  std::thread echo([&far = *far] {
    std::vector<std::byte> payload;
    while (Take(far, &payload).ok()) {
      if (!far.Send(HeaderOf(1, 0), {}).ok()) break;
    }
  });
  uint64_t least_ns = UINT64_MAX;
  std::vector<std::byte> payload;
  for (int i = 0; i < 2000 && (i < 100 || least_ns > kMostNs); ++i) {
    const uint64_t begin_ns = MonotonicNs();
    ASSERT_TRUE(impaired->Send(HeaderOf(1, 0), {}).ok());
    ASSERT_TRUE(Take(*impaired, &payload).ok());
    least_ns = std::min(least_ns, MonotonicNs() - begin_ns);
  }
  impaired->Close();
  echo.join();
  EXPECT_GE(least_ns, 2 * kDelayNs);
  EXPECT_LE(least_ns, kMostNs);
}

TEST(ImpairedLink, HoldsItsRate) {
  constexpr uint64_t kRate = 1'000'000'000;
  constexpr uint64_t kFrames = 100;
  auto [near, far] = MakeInProcessLink(size_t{64} << 20);
  auto slow = MakeImpairedLink(*near, {.bytes_per_second = kRate});
  const std::vector<std::byte> payload(kFrameBytesMax);
  std::vector<std::byte> got;
  const uint64_t begin_ns = MonotonicNs();
  std::thread sender([&] {
    for (uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(slow->Send(HeaderOf(i, payload.size()), payload).ok());
  });
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(Take(*far, &got).ok());
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  sender.join();
  EXPECT_GE(took_ns, kFrames * kFrameBytesMax * 1'000'000'000 / kRate);
}

TEST(ImpairedLink, ThatIsInHandAtOneEndIsImpairedBothWays) {
  constexpr uint64_t kDelayNs = 20'000'000;
  auto [near, far] = MakeInProcessLink();
  auto impaired = MakeImpairedLink(std::move(near), {.delay_ns = kDelayNs, .bytes_per_second = 1'000'000});
  std::vector<std::byte> payload(10'000, std::byte{3});
  uint64_t begin_ns = MonotonicNs();
  ASSERT_TRUE(far->Send(HeaderOf(1, payload.size()), payload).ok());
  std::vector<std::byte> got;
  ASSERT_TRUE(Take(*impaired, &got).ok());
  EXPECT_EQ(got, payload);
  EXPECT_GE(MonotonicNs() - begin_ns, kDelayNs + 10'000'000);
  begin_ns = MonotonicNs();
  ASSERT_TRUE(impaired->Send(HeaderOf(1, payload.size()), payload).ok());
  ASSERT_TRUE(Take(*far, &got).ok());
  EXPECT_GE(MonotonicNs() - begin_ns, kDelayNs + 10'000'000);
  // What was sent before the end arrives before it, this way too.
  ASSERT_TRUE(far->Send(HeaderOf(2, 0), {}).ok());
  far->Close();
  EXPECT_EQ(Take(*impaired, &got).value().number, 2u);
  EXPECT_EQ(Take(*impaired, &got).status().code(), StatusCode::kUnavailable);
}

// A peer that reads nothing, and one that sends what nobody receives.
TEST(ImpairedLink, GoesThoughNobodyReads) {
  auto [near, far] = MakeInProcessLink(size_t{4} << 20);
  auto impaired = MakeImpairedLink(std::move(near), {.delay_ns = 1'000'000});
  const std::vector<std::byte> payload(kFrameBytesMax);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(impaired->Send(HeaderOf(i, payload.size()), payload).ok());
  std::thread sender([&far = *far, &payload] {
    while (far.Send(HeaderOf(1, payload.size()), payload).ok()) {
    }
  });
  impaired.reset();
  sender.join();
}

TEST(ImpairedLink, IsCutAfterSoManyFramesOrBytes) {
  constexpr uint64_t kThreeFramesBytes = 3 * (sizeof(FrameHeader) + 10);
  for (const Impairment& impairment : {Impairment{.cut_after_frames = 3}, Impairment{.cut_after_bytes = kThreeFramesBytes + 5}}) {
    auto [near, far] = MakeInProcessLink();
    auto cut = MakeImpairedLink(*near, impairment);
    const std::vector<std::byte> payload(10);
    Status sent;
    for (uint64_t i = 0; sent.ok(); ++i) sent = cut->Send(HeaderOf(i, payload.size()), payload);
    EXPECT_EQ(sent.code(), StatusCode::kUnavailable);
    std::vector<std::byte> got(payload.size());
    const auto place = [&](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span(got); };
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(far->Receive(place).value().number, i);
    EXPECT_EQ(far->Receive(place).status().code(), StatusCode::kUnavailable);
  }
}

TEST(Impairment, IsWrittenAsItsParts) {
  const Impairment one = Impairment::Parse("delay=0.05ms,rate=10gbit").value();
  EXPECT_EQ(one.delay_ns, 50'000u);
  EXPECT_EQ(one.bytes_per_second, 1'250'000'000u);
  EXPECT_EQ(one.jitter_ns, 0u);
  const Impairment other = Impairment::Parse("jitter=20us,stall=1s,rate=8kbit,delay=0us").value();
  EXPECT_EQ(other.jitter_ns, 20'000u);
  EXPECT_EQ(other.stall_ns, 1'000'000'000u);
  EXPECT_EQ(other.bytes_per_second, 1000u);
  EXPECT_EQ(other.delay_ns, 0u);
}

TEST(Impairment, SaysWhatItDoesNotUnderstand) {
  for (const char* text : {"", "delay", "delay=", "delay=1", "delay=ms", "delay=-1ms", "delay=1m", "delay=11s", "delay=nanms",
                           "rate=10", "rate=0gbit", "rate=1ms", "delay=1gbit", "speed=1gbit", "delay=1ms,", ",delay=1ms",
                           "delay=1ms;rate=1gbit", "delay=1e3ms"}) {
    const Result<Impairment> read = Impairment::Parse(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(read.status().message().find("delay=0.05ms,rate=10gbit"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
