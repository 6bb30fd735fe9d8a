// Both ends of a channel send each other records and ranges, and every byte of them is checked.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {

// What one round sends: a record, and a range that is there before it.
struct Round {
  static constexpr size_t kRecordBytes = 96;
  uint64_t number = 0;
  uint64_t segment = kStagingSegment;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

inline std::vector<std::byte> RecordOf(const Round& round) {
  std::vector<std::byte> record = TestRecord(0, Round::kRecordBytes);
  std::memcpy(record.data() + 32, &round, sizeof(round));
  return record;
}

// Repeats itself after kPeriod bytes, so that megabytes are written and checked by what copies and compares memory: by bytes,
// sanitizers would take most of a test's time for it.
inline constexpr size_t kPeriod = 256;

inline void Fill(std::span<std::byte> bytes, uint64_t seed) {
  std::minstd_rand random(static_cast<uint32_t>(seed + 1));
  const auto step = static_cast<uint8_t>(random() | 1);  // odd: every value comes once in a period
  auto value = static_cast<uint8_t>(random());
  const size_t first = std::min(bytes.size(), kPeriod);
  for (std::byte& byte : bytes.first(first)) byte = static_cast<std::byte>(value += step);
  for (size_t filled = first; filled < bytes.size(); filled *= 2) {
    std::memcpy(bytes.data() + filled, bytes.data(), std::min(filled, bytes.size() - filled));
  }
}

inline bool IsFilled(std::span<const std::byte> bytes, uint64_t seed) {
  std::byte wanted[kPeriod];
  Fill(wanted, seed);
  const size_t first = std::min(bytes.size(), kPeriod);
  return std::memcmp(bytes.data(), wanted, first) == 0 &&
         std::memcmp(bytes.data(), bytes.data() + first, bytes.size() - first) == 0;
}

inline Status Append(RingProducer& ring, std::span<const std::byte> record, const StopPredicate& stop) {
  while (!ring.TryAppend(record)) RETURN_IF_ERROR(ring.WaitForSpace(record.size(), Soon(), stop));
  return Status::Ok();
}

inline Result<Round> NextRound(RingConsumer& ring, const StopPredicate& stop) {
  RecordBuffer buffer;
  for (;;) {
    const auto record = ring.CopyOut(&buffer);
    if (!record.empty()) {
      Round round;
      std::memcpy(&round, record.data() + 32, sizeof(round));
      return round;
    }
    RETURN_IF_ERROR(ring.Wait(Soon(), stop));
  }
}

// Staging lies in slots; the server answers in the upper half of a slot.
class ExchangeRounds {
 public:
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kSlotBytes = 6 << 20;
  static constexpr uint64_t kHalfBytes = kSlotBytes / 2;
  static constexpr uint64_t kStagingBytes = kSlots * kSlotBytes;  // of the channel

  // One round of `segment_every` has a segment of its own.
  ExchangeRounds(Channel& client, Channel& server, uint64_t segment_every = 5)
      : client_(client), server_(server), segment_every_(segment_every) {}

  // The server's side of Run(): checks what came, and answers with as much again.
  void Answer(uint64_t rounds) {
    for (uint64_t number = 1; number <= rounds; ++number) {
      Result<Round> round = NextRound(server_.commands_in(), server_.stop());
      ASSERT_TRUE(round.ok()) << number << ": " << round.status().message();
      ASSERT_EQ(round->number, number);
      const auto bytes = server_.Resolve(static_cast<uint32_t>(round->segment), round->offset, round->bytes);
      ASSERT_NE(bytes.data(), nullptr) << number;
      ASSERT_TRUE(IsFilled(bytes, number)) << number;
      if (round->segment == kStagingSegment) {
        round->offset += kHalfBytes;
      } else {
        ASSERT_TRUE(server_.segments().Claim(static_cast<uint32_t>(round->segment)));
      }
      const auto answer = server_.Resolve(static_cast<uint32_t>(round->segment), round->offset, round->bytes);
      Fill(answer, ~number);
      ASSERT_TRUE(server_.Publish(static_cast<uint32_t>(round->segment), round->offset, round->bytes).ok());
      if (round->segment != kStagingSegment) {
        ASSERT_TRUE(server_.CloseSegment(static_cast<uint32_t>(round->segment)).ok());
      }
      ASSERT_TRUE(Append(server_.replies_out(), RecordOf(*round), server_.stop()).ok());
    }
  }

  // Up to kSlots rounds are on their way; both directions are busy with ranges of up to `bytes_max`. Now and then a round has a
  // segment of its own. May be called again.
  void Run(uint64_t rounds, uint64_t bytes_max, uint64_t seed) {
    std::thread answering([&] { Answer(rounds); });
    Ask(rounds, bytes_max, seed);
    if (testing::Test::HasFatalFailure()) client_.Fail(Status(StatusCode::kInternal, "the test has failed"));
    answering.join();
  }

 private:
  // The client's side.
  void Ask(uint64_t rounds, uint64_t bytes_max, uint64_t seed) {
    std::minstd_rand random(static_cast<uint32_t>(seed + 1));
    uint64_t sent = 0;
    for (uint64_t got = 1; got <= rounds; ++got) {
      for (; sent < rounds && sent + 1 < got + kSlots; ++sent) ASSERT_TRUE(SendRound(sent + 1, 1 + random() % bytes_max).ok());
      Result<Round> round = NextRound(client_.replies_in(), client_.stop());
      ASSERT_TRUE(round.ok()) << got << ": " << round.status().message();
      ASSERT_EQ(round->number, got);
      const auto answer = client_.segments().Resolve(static_cast<uint32_t>(round->segment), round->offset, round->bytes);
      ASSERT_NE(answer.data(), nullptr) << got;
      ASSERT_TRUE(IsFilled(answer, ~got)) << got;
      if (round->segment != kStagingSegment) {
        ASSERT_TRUE(client_.CloseSegment(static_cast<uint32_t>(round->segment)).ok());
        ASSERT_TRUE(client_.ProcessSocket().ok());  // the server's words on it, of which a socket holds few
      }
    }
  }
  Status SendRound(uint64_t number, uint64_t bytes) {
    Round round = {number, kStagingSegment, number % kSlots * kSlotBytes, bytes};
    if (number % segment_every_ == 0) {
      Result<uint32_t> id = client_.OfferSegment(SegmentKind::kHostMemory, bytes, MapPlacement::Anywhere());
      if (!id.ok()) return id.status();
      round.segment = *id;
      round.offset = 0;
    }
    const auto range = client_.segments().Resolve(static_cast<uint32_t>(round.segment), round.offset, round.bytes);
    Fill(range, number);
    RETURN_IF_ERROR(client_.Publish(static_cast<uint32_t>(round.segment), round.offset, round.bytes));
    return Append(client_.commands_out(), RecordOf(round), client_.stop());
  }

  Channel& client_;
  Channel& server_;
  const uint64_t segment_every_;
};

}  // namespace tessera
