#include "protocol/channel/channel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {
namespace {

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    auto [client, server] = SocketPair();
    ends_ = OpenEnds(std::move(client), std::move(server));
  }
  Channel& client() { return *ends_.client; }
  Channel& server() { return *ends_.server; }
  ChannelEnds ends_;
};

TEST_F(ChannelTest, RecordsGoBothWays) {
  EXPECT_EQ(ends_.welcome.session_id, 17u);
  EXPECT_EQ(ends_.welcome.snapshot.size(), 1000u);
  EXPECT_EQ(client().sizes(), TestHello().sizes);
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(1)));
  ASSERT_TRUE(client().answers_out().TryAppend(TestRecord(2)));
  ASSERT_TRUE(server().replies_out().TryAppend(TestRecord(3)));
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).value(), 1u);
  EXPECT_EQ(NextValue(server().answers_in(), server().stop()).value(), 2u);
  EXPECT_EQ(NextValue(client().replies_in(), client().stop()).value(), 3u);
  EXPECT_TRUE(client().Check().ok());
  EXPECT_TRUE(server().Check().ok());
}

TEST_F(ChannelTest, StagingIsShared) {
  client().staging()[1000] = std::byte{7};
  EXPECT_EQ(server().Resolve(kStagingSegment, 1000, 1)[0], std::byte{7});
  EXPECT_EQ(server().Resolve(kStagingSegment, kStagingBytesMin, 1).data(), nullptr);
  EXPECT_EQ(server().Resolve(kRingsSegment, 0, 1).data(), nullptr);
  EXPECT_TRUE(client().Publish(kStagingSegment, 0, 100).ok());  // nothing to do
  EXPECT_FALSE(server().transfers_in().HasRecord());
  EXPECT_FALSE(client().Publish(kStagingSegment, 0, 100, TransferRing::kReplies).ok());
}

void SendOffer(Channel& from, const SegmentOffer& offer, std::span<const int> fds) {
  Encoder encoder;
  offer.Encode(encoder);
  ASSERT_TRUE(from.SendControl(encoder.bytes(), fds).ok());
}

TEST_F(ChannelTest, AnOfferedSegmentIsThereWhenARecordNamesIt) {
  Result<uint32_t> id = client().OfferSegment(SegmentKind::kHostMemory, 10'000, MapPlacement::Anywhere());
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(client().segments().Find(*id).size(), 12'288u);
  client().segments().Find(*id)[5] = std::byte{55};
  const auto there = server().Resolve(*id, 5, 1);
  ASSERT_NE(there.data(), nullptr);
  EXPECT_EQ(there[0], std::byte{55});
  EXPECT_EQ(server().Resolve(*id, 12'288, 1).data(), nullptr);
  EXPECT_EQ(server().Resolve(*id + 2, 0, 1).data(), nullptr);

  Result<uint32_t> from_server = server().OfferSegment(SegmentKind::kHostMemory, 4096, MapPlacement::Anywhere());
  ASSERT_TRUE(from_server.ok());
  EXPECT_NE(client().Resolve(*from_server, 0, 4096).data(), nullptr);

  EXPECT_TRUE(server().segments().Claim(*id));
  EXPECT_TRUE(client().CloseSegment(*id).ok());
  EXPECT_EQ(client().CloseSegment(*id).code(), StatusCode::kNotFound);
  // The server's mapping stays until the server has finished with it.
  EXPECT_TRUE(server().ProcessSocket().ok());
  EXPECT_NE(server().Resolve(*id, 0, 1).data(), nullptr);
  EXPECT_TRUE(server().CloseSegment(*id).ok());
  EXPECT_EQ(server().Resolve(*id, 0, 1).data(), nullptr);
  EXPECT_EQ(client().CloseSegment(kStagingSegment).code(), StatusCode::kInvalidArgument);
}

TEST_F(ChannelTest, ASegmentThatNobodyUsedMakesRoomForTheNextAtItsPlace) {
  constexpr uint64_t kBytes = 4 * kPageBytes;
  void* window = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(window, MAP_FAILED);
  const auto address = reinterpret_cast<uint64_t>(window);
  server().SetHostWindow(address, kBytes);
  // Both ends are in this process, so only the server's mapping lies at the agreed place.
  for (uint32_t id = 100; id < 104; id += 2) {
    Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
    ASSERT_TRUE(file.ok());
    const int fd = file->get();
    SendOffer(client(), SegmentOffer{id, SegmentKind::kHostMemory, kBytes, address, 0}, std::span(&fd, 1));
    EXPECT_NE(server().Resolve(id, 0, kBytes).data(), nullptr);
    Encoder encoder;
    SegmentClose{id}.Encode(encoder);
    ASSERT_TRUE(client().SendControl(encoder.bytes(), {}).ok());
  }
  EXPECT_TRUE(server().ProcessSocket().ok());
  EXPECT_EQ(server().segments().Find(102).data(), nullptr);
  munmap(window, kBytes);
}

TEST_F(ChannelTest, SegmentsForWhichThereIsNoRoomAreRefusedWithTheReason) {
  std::vector<uint64_t> asked;
  server().SetSegmentRoom([&](uint64_t bytes) {
    asked.push_back(bytes);
    return bytes <= 3 * kPageBytes ? Status::Ok() : Status(StatusCode::kResourceExhausted, "too much");
  });
  const auto offer = [&](uint64_t pages) {
    return client().OfferSegment(SegmentKind::kHostMemory, pages * kPageBytes, MapPlacement::Anywhere()).value();
  };
  const uint32_t first = offer(2);
  EXPECT_NE(server().Resolve(first, 0, 1).data(), nullptr);
  EXPECT_TRUE(server().WhyRefused(first).ok());
  const uint32_t second = offer(2);
  EXPECT_EQ(server().Resolve(second, 0, 1).data(), nullptr);
  EXPECT_EQ(server().WhyRefused(second).message(), "too much");
  EXPECT_TRUE(client().CloseSegment(second).ok());
  EXPECT_TRUE(server().ProcessSocket().ok());
  EXPECT_TRUE(server().WhyRefused(second).ok());
  // A smaller one has room, and so has a larger one when others are gone.
  const uint32_t third = offer(1);
  EXPECT_NE(server().Resolve(third, 0, 1).data(), nullptr);
  EXPECT_TRUE(server().segments().Claim(first));
  EXPECT_TRUE(server().CloseSegment(first).ok());
  EXPECT_NE(server().Resolve(offer(2), 0, 1).data(), nullptr);
  EXPECT_EQ(asked, (std::vector<uint64_t>{2 * kPageBytes, 4 * kPageBytes, 3 * kPageBytes, kPageBytes, 3 * kPageBytes}));
  // What the server offers itself is nobody's to ask about.
  EXPECT_TRUE(server().OfferSegment(SegmentKind::kHostMemory, 16 * kPageBytes, MapPlacement::Anywhere()).ok());
  EXPECT_EQ(asked.size(), 5u);
}

// On both sides a thread waits for something else, as in a worker that is busy with a call; nobody names a segment.
TEST_F(ChannelTest, ManyClosesInARowHoldNobodyUp) {
  constexpr int kSegments = 1500;  // a socket takes some 200 messages
  std::vector<uint32_t> ids;
  for (int i = 0; i < kSegments; ++i) {
    Result<uint32_t> id = client().OfferSegment(SegmentKind::kHostMemory, kPageBytes, MapPlacement::Anywhere());
    ASSERT_TRUE(id.ok());
    ASSERT_NE(server().Resolve(*id, 0, 1).data(), nullptr);
    ids.push_back(*id);
  }
  std::thread there([&] { EXPECT_FALSE(server().answers_in().Wait(kNoDeadline, server().stop()).ok()); });
  std::thread here([&] { EXPECT_FALSE(client().replies_in().Wait(kNoDeadline, client().stop()).ok()); });
  const uint64_t begin_ns = MonotonicNs();
  for (const uint32_t id : ids) EXPECT_TRUE(client().CloseSegment(id).ok());
  EXPECT_LT(MonotonicNs() - begin_ns, 8'000'000'000u);  // one that finds no room waits for 10 s
  while (server().segments().Find(ids.back()).data() != nullptr) std::this_thread::yield();
  EXPECT_EQ(server().segments().Find(ids.front()).data(), nullptr);
  client().Leave();
  there.join();
  here.join();
}

TEST_F(ChannelTest, AGoodByeIsReadBehindASegmentThatNobodyUsed) {
  Result<uint32_t> id = client().OfferSegment(SegmentKind::kHostMemory, 4096, MapPlacement::Anywhere());
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(client().CloseSegment(*id).ok());
  client().Leave();
  EXPECT_FALSE(server().Check().ok());
  EXPECT_TRUE(server().peer_left());
}

TEST_F(ChannelTest, AGoodByeIsReadWhenThePeerLeavesMessagesUnread) {
  ASSERT_TRUE(server().OfferSegment(SegmentKind::kHostMemory, 4096, MapPlacement::Anywhere()).ok());
  client().Leave();
  ends_.client.reset();
  EXPECT_FALSE(server().Check().ok());
  EXPECT_TRUE(server().peer_left());
}

TEST_F(ChannelTest, ASharedFileOfTheApplicationIsMappedFromItsOffset) {
  UniqueFd file(memfd_create("app", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 3 * kPageBytes), 0);
  void* own = mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), kPageBytes);
  ASSERT_NE(own, MAP_FAILED);
  const std::span<std::byte> bytes(static_cast<std::byte*>(own), 2 * kPageBytes);
  Result<uint32_t> id = client().OfferMapped(file.get(), kPageBytes, bytes);
  ASSERT_TRUE(id.ok());
  bytes[kPageBytes] = std::byte{3};
  const auto there = server().Resolve(*id, kPageBytes, 1);
  ASSERT_NE(there.data(), nullptr);
  EXPECT_EQ(there[0], std::byte{3});
  EXPECT_TRUE(client().CloseSegment(*id).ok());
  munmap(own, 2 * kPageBytes);
}

TEST_F(ChannelTest, ASharedFileMayEndWithinItsLastPageButNotBefore) {
  UniqueFd file(memfd_create("app", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kPageBytes + 1), 0);
  const int fd = file.get();
  SendOffer(client(), {2, SegmentKind::kSharedFile, 2 * kPageBytes, 0, 0}, std::span(&fd, 1));
  EXPECT_TRUE(server().ProcessSocket().ok());
  const auto there = server().Resolve(2, 2 * kPageBytes - 1, 1);
  ASSERT_NE(there.data(), nullptr);
  there[0] = std::byte{1};  // is memory
  SendOffer(client(), {4, SegmentKind::kSharedFile, 3 * kPageBytes, 0, 0}, std::span(&fd, 1));
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
}

// Each of these ends the session, and says why.
TEST_F(ChannelTest, AnOfferOfOurOwnIdIsAViolation) {
  Result<UniqueFd> file = CreateSegmentFile("test", kPageBytes);
  const int fd = file->get();
  SendOffer(client(), {5, SegmentKind::kHostMemory, kPageBytes, 0, 0}, std::span(&fd, 1));
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
}
TEST_F(ChannelTest, AnOfferWithoutADescriptorIsAViolation) {
  SendOffer(client(), {2, SegmentKind::kHostMemory, kPageBytes, 0, 0}, {});
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
}
TEST_F(ChannelTest, AnOfferOutsideOfTheWindowIsAViolation) {
  Result<UniqueFd> file = CreateSegmentFile("test", kPageBytes);
  const int fd = file->get();
  SendOffer(client(), {2, SegmentKind::kHostMemory, kPageBytes, 0x200000000000, 0}, std::span(&fd, 1));
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
}
TEST_F(ChannelTest, AnOfferThatCouldShrinkIsAViolation) {
  UniqueFd file(memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kPageBytes), 0);
  const int fd = file.get();
  SendOffer(client(), {2, SegmentKind::kHostMemory, kPageBytes, 0, 0}, std::span(&fd, 1));
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
  // The client hears the reason.
  EXPECT_NE(client().ProcessSocket().message().find("shrink"), std::string::npos);
}
TEST_F(ChannelTest, GarbageOnTheSocketIsAViolation) {
  const std::vector<std::byte> garbage(100, std::byte{0x5a});
  ASSERT_TRUE(client().SendControl(garbage, {}).ok());
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);
}

TEST_F(ChannelTest, ASegmentAtAnAddressInsideTheWindow) {
  // One process cannot have it mapped at the same address twice: the server gets the offer of a raw message.
  constexpr uint64_t kBytes = 64 * kPageBytes;
  void* free_place = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto window = reinterpret_cast<uint64_t>(free_place);
  server().SetHostWindow(window, kBytes);
  Result<UniqueFd> file = CreateSegmentFile("test", 2 * kPageBytes);
  const int fd = file->get();
  SendOffer(client(), {2, SegmentKind::kHostMemory, 2 * kPageBytes, window + kPageBytes, 0}, std::span(&fd, 1));
  EXPECT_EQ(reinterpret_cast<uint64_t>(server().Resolve(2, 0, 1).data()), window + kPageBytes);
  SendOffer(client(), {4, SegmentKind::kHostMemory, 2 * kPageBytes, window + 2 * kPageBytes, 0}, std::span(&fd, 1));
  EXPECT_EQ(server().ProcessSocket().code(), StatusCode::kProtocolViolation);  // on top of the other
  ends_.server.reset();
  munmap(free_place, kBytes);
}

TEST_F(ChannelTest, LeavingInOrderIsNoErrorAndKeepsWhatWasSaid) {
  ASSERT_TRUE(client().commands_out().TryAppend(TestRecord(1)));
  client().Leave();
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).value(), 1u);
  EXPECT_EQ(NextValue(server().commands_in(), server().stop()).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server().peer_left());
  EXPECT_EQ(client().Check().code(), StatusCode::kUnavailable);
}

TEST_F(ChannelTest, AFailureComesWithItsReason) {
  std::thread waiter([&] {
    const uint64_t begin_ns = MonotonicNs();
    const Status status = client().replies_in().Wait(kNoDeadline, client().stop());
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("no memory left"), std::string::npos);
    EXPECT_LT(MonotonicNs() - begin_ns, 10'000'000'000u);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  server().Fail(Status(StatusCode::kResourceExhausted, "no memory left"));
  waiter.join();
  EXPECT_FALSE(client().peer_left());
  EXPECT_EQ(server().Check().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(client().OfferSegment(SegmentKind::kHostMemory, 4096, MapPlacement::Anywhere()).ok());
}

TEST_F(ChannelTest, AllWaitsEndWhenThePeerVanishes) {
  while (client().commands_out().TryAppend(TestRecord(1, 8192))) {
  }
  std::thread consumer(
      [&] { EXPECT_EQ(client().replies_in().Wait(kNoDeadline, client().stop()).code(), StatusCode::kUnavailable); });
  std::thread producer([&] {
    EXPECT_EQ(client().commands_out().WaitForSpace(8192, kNoDeadline, client().stop()).code(), StatusCode::kUnavailable);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const uint64_t begin_ns = MonotonicNs();
  ends_.server.reset();
  consumer.join();
  producer.join();
  EXPECT_LT(MonotonicNs() - begin_ns, 10'000'000'000u);
}

TEST(ChannelSizes, AreBounded) {
  const ChannelSizes small = BoundedSizes({0, 0, 0, 0, 0});
  EXPECT_EQ(small.command_bytes, kRingBytesMin);
  EXPECT_EQ(small.staging_bytes, kStagingBytesMin);
  const ChannelSizes large = BoundedSizes({UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX});
  EXPECT_EQ(large, (ChannelSizes{kCommandBytesMax, kReplyBytesMax, kSmallRingBytesMax, kSmallRingBytesMax, kStagingBytesMax}));
  EXPECT_EQ(BoundedSizes({5000, 5000, 5000, 5000, 5'000'000}).command_bytes, 8192u);
  EXPECT_EQ(BoundedSizes(large), large);
  EXPECT_EQ(BoundedSizes(ChannelSizes()), ChannelSizes());
}

TEST(ChannelHandshake, AnotherSpecIsRefusedWithBothNamed) {
  auto [client, server] = SocketPair();
  std::thread serving([&, socket = std::move(server)] {
    EXPECT_EQ(ReceiveHello(socket.get(), 0xbbbb, Soon()).status().code(), StatusCode::kVersionMismatch);
  });
  ClientHello hello = TestHello();
  hello.spec_hash = 0xaaaa;
  ServerWelcome welcome;
  const Status status = Channel::Attach(std::move(client), hello, &welcome, Soon()).status();
  serving.join();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(status.message().find("aaaa"), std::string::npos);
  EXPECT_NE(status.message().find("bbbb"), std::string::npos);
}

TEST(ChannelHandshake, ARefusalIsPassedOn) {
  auto [client, server] = SocketPair();
  Refuse(server.get(), Status(StatusCode::kResourceExhausted, "all devices are taken"));
  ServerWelcome welcome;
  const Status status = Channel::Attach(std::move(client), TestHello(), &welcome, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "all devices are taken");
}

TEST(ChannelHandshake, AServerThatSaysNothingOrGoesAwayIsNoticed) {
  auto [client, server] = SocketPair();
  ServerWelcome welcome;
  EXPECT_EQ(Channel::Attach(std::move(client), TestHello(), &welcome, MonotonicNs() + 5'000'000).status().code(),
            StatusCode::kTimedOut);
  auto [other_client, other_server] = SocketPair();
  other_server.reset();
  EXPECT_EQ(Channel::Attach(std::move(other_client), TestHello(), &welcome, Soon()).status().code(), StatusCode::kUnavailable);
}

TEST(ChannelHandshake, AWelcomeThatIsNotOursIsAViolation) {
  for (int variant = 0; variant < 5; ++variant) {
    auto [client, server] = SocketPair();
    ServerWelcome bad;
    bad.spec_hash = kTestSpecHash;
    bad.sizes = BoundedSizes(TestHello().sizes);
    bad.segments = {{kRingsSegment, SegmentKind::kRings, kPageBytes, 0, 0},
                    {kStagingSegment, SegmentKind::kStaging, bad.sizes.staging_bytes, 0, 0}};
    if (variant == 1) bad.segments.pop_back();
    if (variant == 2) bad.sizes.command_bytes = 12345;
    if (variant == 3) bad.session_index = 7;
    if (variant == 4) bad.segments[0].id = 9;
    Encoder encoder;
    bad.Encode(encoder);
    Result<UniqueFd> file = CreateSegmentFile("test", kStagingBytesMin);
    const int fds[] = {file->get(), file->get()};
    ASSERT_TRUE(SendMessage(server.get(), encoder.bytes(), fds, Soon()).ok());
    ServerWelcome welcome;
    EXPECT_EQ(Channel::Attach(std::move(client), TestHello(), &welcome, Soon()).status().code(), StatusCode::kProtocolViolation)
        << variant;
  }
}

}  // namespace
}  // namespace tessera
