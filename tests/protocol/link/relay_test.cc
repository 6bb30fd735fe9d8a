// Two relays and a link between them, between the two ends of a channel.
#include "protocol/relay/relay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "tests/protocol/channel/channel_fixture.h"
#include "tests/support/mirror.h"
#include "tests/support/striped_pair.h"
#include "tests/support/tcp_pair.h"
#include "tests/support/tls_pair.h"
#include "tests/support/ucx_pair.h"

namespace tessera {
namespace {

// Over a link as it should be, and over one that is slow, late and stalls.
Impairment BadLink() {
  return {.delay_ns = 200'000,
          .jitter_ns = 300'000,
          .bytes_per_second = 200'000'000,
          .stall_ns = 5'000'000,
          .stall_one_in = 500,
          .seed = 7};
}

struct RelayKind {
  const char* name;
  Mirror::Links (*make)();
  bool bad = false;
  bool (*there)() = [] { return true; };
};

Mirror::Links MakePlain() { return MakeInProcessLink(); }

constexpr RelayKind kRelayKinds[] = {
    {"plain", MakePlain},
    {"impaired", MakePlain, true},
    {"tcp", MakeTcpPair},
    {"impaired_tcp", MakeTcpPair, true},
    {"tls", [] { return MakeTlsPair(); }},
    {"impaired_tls", [] { return MakeTlsPair(); }, true},
    {"tls_openssl", [] { return MakeTlsPair(OpensslTuningOfTests()); }},
    {"impaired_tls_to_openssl", [] { return MakeTlsPair(TuningOfTests(), OpensslTuningOfTests()); }, true},
    {"striped_tcp", [] { return MakeStripedPair(3, [](size_t) { return MakeTcpPair(); }); }},
    {"impaired_striped_tls", [] { return MakeStripedPair(2, [](size_t) { return MakeTlsPair(); }); }, true},
    {"ucx", MakeUcxPair, false, HaveUcx},
};

class RelayTest : public testing::TestWithParam<RelayKind> {
 protected:
  void SetUp() override {
    if (!GetParam().there()) GTEST_SKIP() << "UCX is not installed (libucx0)";
    auto [client, mirror_client] = SocketPair();
    auto [mirror_server, server] = SocketPair();
    mirror_ = Mirror::Start(std::move(mirror_client), std::move(mirror_server), bad() ? std::optional(BadLink()) : std::nullopt,
                            GetParam().make());
    ends_ = OpenEnds(std::move(client), std::move(server));
  }
  static bool bad() { return GetParam().bad; }
  Channel& client() { return *ends_.client; }
  Channel& server() { return *ends_.server; }
  std::unique_ptr<Mirror> mirror_;
  ChannelEnds ends_;
};

TEST_P(RelayTest, BothEndsKnowAndShareNothing) {
  EXPECT_TRUE(client().mirrored());
  EXPECT_TRUE(server().mirrored());
  EXPECT_TRUE(ends_.welcome.mirrored);
  EXPECT_EQ(ends_.welcome.snapshot.size(), 1000u);
  client().staging()[0] = std::byte{1};
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(1)));
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).value(), 1u);
  EXPECT_EQ(server().staging()[0], std::byte{0});  // nobody published it
}

TEST_P(RelayTest, AllRingsAreCarried) {
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(1)));
  ASSERT_TRUE(client().answers_out().TryAppend(TestRecord(2)));
  ASSERT_TRUE(server().replies_out().TryAppend(TestRecord(3)));
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).value(), 1u);
  EXPECT_EQ(NextValue(server().answers_in(), server().stop()).value(), 2u);
  EXPECT_EQ(NextValue(client().replies_in(), client().stop()).value(), 3u);
}

TEST_P(RelayTest, ManyRecordsArriveInOrder) {
  constexpr uint64_t kCount = 20'000;
  std::thread producer([&] { EXPECT_TRUE(ProduceTestRecords(client().commands_out(), kCount, client().stop()).ok()); });
  const Status status =
      ConsumeTestRecords(server().commands_in(), kCount, client().commands_out().record_bytes_max(), server().stop());
  producer.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

// The server reads from staging what the record before it announced, a thousand times over the same bytes; the client may
// overwrite them only after the reply. Several ranges per record fill the small transfers ring.
TEST_P(RelayTest, ARangeIsThereBeforeTheRecordThatNamesIt) {
  const uint64_t kRounds = bad() ? 100 : 1000;
  std::thread serving([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      ASSERT_EQ(NextValue(server().commands_in(), server().stop()).value(), round);
      for (uint64_t part = 0; part < 8; ++part) {
        uint64_t seen = 0;
        std::memcpy(&seen, server().Resolve(kStagingSegment, part * 8192, 8).data(), 8);
        ASSERT_EQ(seen, round * 100 + part);
      }
      const uint64_t result = round * 7;
      std::memcpy(server().staging().data() + 100'000, &result, 8);
      ASSERT_TRUE(server().Publish(kStagingSegment, 100'000, 8).ok());
      ASSERT_TRUE(server().replies_out().TryAppend(TestRecord(round)));
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (uint64_t part = 0; part < 8; ++part) {
      const uint64_t value = round * 100 + part;
      std::memcpy(client().staging().data() + part * 8192, &value, 8);
      ASSERT_TRUE(client().Publish(kStagingSegment, part * 8192, 8).ok());
    }
    ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(round)));
    ASSERT_EQ(NextValue(client().replies_in(), client().stop()).value(), round);
    uint64_t result = 0;
    std::memcpy(&result, client().staging().data() + 100'000, 8);
    ASSERT_EQ(result, round * 7);
  }
  serving.join();
  EXPECT_EQ(mirror_->bytes_to_server(), kRounds * 8 * 8);
  EXPECT_EQ(mirror_->bytes_to_client(), kRounds * 8);
}

TEST_P(RelayTest, OfferedSegmentsAppearAsOwnMemory) {
  Result<uint32_t> id = client().OfferSegment(SegmentKind::kHostMemory, 100'000, MapPlacement::Anywhere());
  ASSERT_TRUE(id.ok());
  client().segments().Find(*id)[99'999] = std::byte{8};
  ASSERT_TRUE(client().Publish(*id, 99'999, 1).ok());
  EXPECT_FALSE(client().Publish(*id, 200'000, 1).ok());
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(1)));
  ASSERT_EQ(NextValue(server().commands_in(), server().stop()).value(), 1u);
  const auto there = server().Resolve(*id, 99'999, 1);
  ASSERT_NE(there.data(), nullptr);
  EXPECT_EQ(there[0], std::byte{8});
  there[0] = std::byte{9};
  EXPECT_EQ(client().segments().Find(*id)[99'999], std::byte{8});
  ASSERT_TRUE(server().Publish(*id, 99'999, 1).ok());
  ASSERT_TRUE(server().replies_out().TryAppend(TestRecord(2)));
  ASSERT_EQ(NextValue(client().replies_in(), client().stop()).value(), 2u);
  EXPECT_EQ(client().segments().Find(*id)[99'999], std::byte{9});
  EXPECT_TRUE(server().CloseSegment(*id).ok());
  EXPECT_TRUE(client().CloseSegment(*id).ok());
  // The session goes on.
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(3)));
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).value(), 3u);
}

// Ranges are published into segments that are closed right after, by both sides: those that come too late are dropped.
TEST_P(RelayTest, SegmentsComeAndGo) {
  for (uint64_t round = 1; round <= 50; ++round) {
    Result<uint32_t> id = client().OfferSegment(SegmentKind::kHostMemory, 1 << 20, MapPlacement::Anywhere());
    ASSERT_TRUE(id.ok()) << id.status().message();
    const auto bytes = client().segments().Find(*id);
    std::memset(bytes.data(), static_cast<int>(round), bytes.size());
    ASSERT_TRUE(client().Publish(*id, 0, bytes.size()).ok());
    ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(round)));
    Result<uint64_t> next = NextValue(server().commands_in(), server().stop());
    ASSERT_TRUE(next.ok()) << next.status().message();
    ASSERT_EQ(*next, round);
    const auto there = server().Resolve(*id, 0, 1 << 20);
    ASSERT_NE(there.data(), nullptr);
    ASSERT_EQ(there.front(), static_cast<std::byte>(round));
    ASSERT_EQ(there.back(), static_cast<std::byte>(round));
    ASSERT_TRUE(server().Publish(*id, 0, 1 << 20).ok());
    ASSERT_TRUE(server().CloseSegment(*id).ok());
    ASSERT_TRUE(client().CloseSegment(*id).ok());
  }
}

// The relays keep nothing of a segment that the server had no room for, once the client has closed it.
TEST(RelayBoundsTest, WhatTheServerRefusedIsNobodysWhenTheClientHasClosedIt) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  auto [mirror_client, client_end] = SocketPair();
  auto [mirror_server, server_end] = SocketPair();
  const auto mirror = Mirror::Start(std::move(mirror_client), std::move(mirror_server), {}, MakeInProcessLink(), 4 * kMiB);
  ChannelEnds ends = OpenEnds(std::move(client_end), std::move(server_end));
  ends.server->SetSegmentRoom([](uint64_t bytes) {
    return bytes <= 4096 ? Status::Ok() : Status(StatusCode::kResourceExhausted, "the server has no room");
  });
  uint64_t record = 0;
  const auto pass = [&] {
    EXPECT_TRUE(ends.client->commands_out().TryAppend(TestRecord(++record)));
    EXPECT_EQ(NextValue(ends.server->commands_in(), ends.server->stop()).value(), record);
    EXPECT_TRUE(ends.server->ProcessSocket().ok());
  };
  // Two have no room in a relay at once. What was closed before may still be on its way back; then the relay refuses the next.
  const uint64_t deadline_ns = MonotonicNs() + 10'000'000'000;
  for (int heard = 0; heard < 5;) {
    ASSERT_LT(MonotonicNs(), deadline_ns) << heard;
    const uint32_t large = ends.client->OfferSegment(SegmentKind::kHostMemory, 3 * kMiB, MapPlacement::Anywhere()).value();
    pass();
    if (ends.server->WhyRefused(large).message() == "the server has no room") ++heard;
    EXPECT_TRUE(ends.client->CloseSegment(large).ok());
    pass();
  }
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A session whose segments may have 4 MiB.
void CheckBoundOfSegments(uint64_t of_session, SegmentBudget* of_all) {
  auto [mirror_client, client_end] = SocketPair();
  auto [mirror_server, server_end] = SocketPair();
  const auto mirror =
      Mirror::Start(std::move(mirror_client), std::move(mirror_server), {}, MakeInProcessLink(), of_session, of_all);
  ChannelEnds ends = OpenEnds(std::move(client_end), std::move(server_end));
  uint64_t record = 0;
  // Whether the server knows a segment that the client has offered, and written to.
  const auto arrives = [&](uint32_t id) {
    EXPECT_TRUE(ends.client->Publish(id, 0, 4096).ok());
    EXPECT_TRUE(ends.client->commands_out().TryAppend(TestRecord(++record)));
    EXPECT_EQ(NextValue(ends.server->commands_in(), ends.server->stop()).value(), record);
    return ends.server->Resolve(id, 0, 4096).data() != nullptr;
  };
  const auto offer = [&](uint64_t bytes) {
    return ends.client->OfferSegment(SegmentKind::kHostMemory, bytes, MapPlacement::Anywhere()).value();
  };
  const uint32_t first = offer(3 * kMiB);
  EXPECT_TRUE(arrives(first));
  for (int i = 0; i < 200; ++i) {
    const uint32_t giant = offer(uint64_t{1} << 30);
    EXPECT_FALSE(arrives(giant));
    EXPECT_TRUE(ends.client->CloseSegment(giant).ok());
  }
  EXPECT_FALSE(arrives(offer(2 * kMiB)));
  const uint32_t second = offer(kMiB);
  EXPECT_TRUE(arrives(second));
  EXPECT_FALSE(arrives(offer(4096)));
  // What both have closed is free for others, once both ends of the link have heard of it.
  EXPECT_TRUE(ends.server->CloseSegment(first).ok());
  EXPECT_TRUE(ends.client->CloseSegment(first).ok());
  EXPECT_TRUE(arrives(second));
  bool fits = false;
  for (const uint64_t give_up_ns = Soon(); !fits && MonotonicNs() < give_up_ns;) {
    const uint32_t third = offer(3 * kMiB);
    fits = arrives(third);
    if (!fits) {
      EXPECT_TRUE(ends.client->CloseSegment(third).ok());
    }
  }
  EXPECT_TRUE(fits);
}

TEST(RelayBoundsTest, SegmentsBeyondTheBoundAreRefusedAndTheSessionGoesOn) { CheckBoundOfSegments(4 * kMiB, nullptr); }

TEST(RelayBoundsTest, AllSessionsHaveOneBoundTogether) {
  SegmentBudget budget(4 * kMiB);
  CheckBoundOfSegments(UINT64_MAX, &budget);
  // What a session had that is over is there for others.
  EXPECT_TRUE(budget.Take(4 * kMiB));
  EXPECT_FALSE(budget.Take(1));
}

// A writer waits for the far reader: nothing is lost between them, and nothing is given back before it was read.
TEST_P(RelayTest, AFullRingIsFeltAtTheOtherEnd) {
  const size_t ring_bytes = client().sizes().command_bytes;
  uint64_t sent = 0;
  const uint64_t give_up_ns = MonotonicNs() + 300'000'000;
  while (MonotonicNs() < give_up_ns) {
    if (client().commands_out().TryAppend(TestRecord(sent + 1, 1024))) ++sent;
  }
  // What fits the two rings; the link itself holds nothing back.
  EXPECT_LE(sent * 1024, 2 * ring_bytes);
  EXPECT_GE(sent * 1024, ring_bytes / 2);
  for (uint64_t i = 1; i <= sent; ++i) ASSERT_EQ(NextValue(server().commands_in(), server().stop()).value(), i);
  ASSERT_TRUE(client().commands_out().WaitForSpace(1024, Soon(), client().stop()).ok());
}

TEST_P(RelayTest, TheEndComesAfterTheLastRecord) {
  for (uint64_t i = 1; i <= 100; ++i) ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(i)));
  client().Leave();
  for (uint64_t i = 1; i <= 100; ++i) ASSERT_EQ(NextValue(server().commands_in(), server().stop()).value(), i);
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server().peer_left());
}

TEST_P(RelayTest, AServerThatFailsTellsTheClientWhy) {
  server().Fail(Status(StatusCode::kResourceExhausted, "no memory left"));
  const Status status = client().replies_in().Wait(Soon(), client().stop());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("no memory left"), std::string::npos);
}

TEST_P(RelayTest, AClientThatVanishesIsNoticedByTheServer) {
  ends_.client.reset();
  EXPECT_EQ(server().commands_in().Wait(Soon(), server().stop()).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(server().peer_left());
}

TEST_P(RelayTest, StoppingItEndsBothSides) {
  mirror_.reset();
  EXPECT_EQ(server().commands_in().Wait(Soon(), server().stop()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(client().replies_in().Wait(Soon(), client().stop()).code(), StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Links, RelayTest, testing::ValuesIn(kRelayKinds),
                         [](const auto& info) { return std::string(info.param.name); });

// Counts what is acknowledged through it, and how often something goes out.
struct LinkCounts {
  std::atomic<int> acks{0}, ranges{0}, writes{0};
};
class CountingLink : public Link {
 public:
  CountingLink(std::unique_ptr<Link> link, LinkCounts& counts) : link_(std::move(link)), counts_(counts) {}
  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override {
    RETURN_IF_ERROR(SendSoon(header, payload));
    return Flush();
  }
  Status SendSoon(const FrameHeader& header, std::span<const std::byte> payload) override {
    if (header.kind == FrameKind::kAck) ++counts_.acks;
    if (header.kind == FrameKind::kTransfer) ++counts_.ranges;
    waiting_ = true;
    return link_->Send(header, payload);
  }
  Status Flush() override {
    if (std::exchange(waiting_, false)) ++counts_.writes;
    return Status::Ok();
  }
  Result<FrameHeader> Receive(const Place& place) override { return link_->Receive(place); }
  void Close() override { link_->Close(); }

 private:
  const std::unique_ptr<Link> link_;
  LinkCounts& counts_;
  bool waiting_ = false;  // of the sending thread
};

class RelayCounts : public testing::Test {
 protected:
  RelayCounts() {
    auto [near, far] = MakeInProcessLink();
    Mirror::Links links = {std::make_unique<CountingLink>(std::move(near), counts_),
                           std::make_unique<CountingLink>(std::move(far), counts_)};
    auto [client_socket, mirror_client] = SocketPair();
    auto [mirror_server, server_socket] = SocketPair();
    mirror_ = Mirror::Start(std::move(mirror_client), std::move(mirror_server), {}, std::move(links));
    ends_ = OpenEnds(std::move(client_socket), std::move(server_socket));
  }
  // Calls that wait for their replies, each of which has a range that it names.
  void Call(uint64_t rounds, uint64_t range_bytes) {
    Channel& client = *ends_.client;
    Channel& server = *ends_.server;
    std::thread serving([&] {
      for (uint64_t i = 1; i <= rounds; ++i) {
        ASSERT_EQ(NextValue(server.commands_in(), server.stop()).value(), i);
        ASSERT_TRUE(server.Publish(kStagingSegment, 0, range_bytes).ok());
        while (!server.replies_out().TryAppend(TestRecord(i))) {
          ASSERT_TRUE(server.replies_out().WaitForSpace(64, Soon(), server.stop()).ok());
        }
      }
    });
    for (uint64_t i = 1; i <= rounds; ++i) {
      while (!client.commands_out().TryAppend(TestRecord(i))) {
        ASSERT_TRUE(client.commands_out().WaitForSpace(64, Soon(), client.stop()).ok());
      }
      ASSERT_EQ(NextValue(client.replies_in(), client.stop()).value(), i);
    }
    serving.join();
  }

  LinkCounts counts_;
  std::unique_ptr<Mirror> mirror_;
  ChannelEnds ends_;
};

// Several times what a ring holds: what was read is told now and then, not each time.
TEST_F(RelayCounts, FewAcknowledgementsForSmallRecords) {
  Call(4 * ends_.client->sizes().command_bytes / 64, 0);
  // An eighth of each ring at a time: 4 x 8 of commands, 8 x 8 of replies, whose ring is half as large.
  EXPECT_GE(counts_.acks.load(), 1);
  EXPECT_LE(counts_.acks.load(), 32 + 64);
}

// A small copy from the device is such a call: one thing goes out there, one comes back.
TEST_F(RelayCounts, ARangeGoesOutWithTheRecordThatNamesIt) {
  constexpr int kRounds = 1'000;
  const int before = counts_.writes.load();
  Call(kRounds, 4);
  EXPECT_EQ(counts_.ranges.load(), kRounds);
  // A range may be seen by itself when the thread for those looks just then, every 50 ms.
  EXPECT_LE(counts_.writes.load() - before, 2 * kRounds + counts_.acks.load() + kRounds / 10);
}

// A writer of many ranges that names none of them yet is not held up, and what is to travel at once does.
TEST_F(RelayCounts, RangesThatNoRecordFollowsTravelToo) {
  const int ring = static_cast<int>(ends_.client->sizes().transfer_bytes / sizeof(TransferRecord));
  for (int i = 0; i < 4 * ring; ++i) ASSERT_TRUE(ends_.client->Publish(kStagingSegment, 0, 8).ok());
  EXPECT_GE(counts_.ranges.load(), 3 * ring);
  ends_.client->SendPublished();
  const uint64_t give_up_ns = Soon();
  while (counts_.ranges.load() != 4 * ring && MonotonicNs() < give_up_ns) std::this_thread::yield();
  EXPECT_EQ(counts_.ranges.load(), 4 * ring);
}

TEST(RelayHandshake, ARefusalIsPassedOn) {
  auto [client, mirror_client] = SocketPair();
  auto [mirror_server, server] = SocketPair();
  auto mirror = Mirror::Start(std::move(mirror_client), std::move(mirror_server));
  std::thread serving([socket = std::move(server)] {
    EXPECT_EQ(ReceiveHello(socket.get(), 0xbbbb, Soon()).status().code(), StatusCode::kVersionMismatch);
  });
  ServerWelcome welcome;
  const Status status = Channel::Attach(std::move(client), TestHello(), &welcome, Soon()).status();
  serving.join();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(status.message().find("bbbb"), std::string::npos);
}

TEST(RelayHandshake, StoppingDuringTheHandshakeDoesNotHang) {
  auto [client, mirror_client] = SocketPair();
  auto [mirror_server, server] = SocketPair();
  Mirror::Start(std::move(mirror_client), std::move(mirror_server)).reset();
  EXPECT_TRUE(SocketHungUp(client.get()));
}

}  // namespace
}  // namespace tessera
