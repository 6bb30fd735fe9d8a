#include "server/daemon/children/worker_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

constexpr GpuUuid kGpu{std::byte{7}, std::byte{9}};

class WorkerLineTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    daemon_.reset(ends[0]);
    worker_.reset(ends[1]);
  }
  // What the daemon hears; it waits a little.
  Result<WorkerSays> Hear() {
    for (;;) {
      Result<WorkerSays> said = HearWorker(daemon_.get());
      if (said.ok() || said.status().code() != StatusCode::kTimedOut) return said;
      std::this_thread::yield();
    }
  }

  UniqueFd daemon_;
  UniqueFd worker_;
};

TEST_F(WorkerLineTest, AClientAtOnceOrLater) {
  ClientHello hello;
  hello.devices = "1";
  ASSERT_TRUE(SendWish(daemon_.get(), hello).ok());
  Result<ClientHello> wish = ReceiveWish(worker_.get());
  ASSERT_TRUE(wish.ok());
  EXPECT_EQ(wish->devices, "1");
  EXPECT_FALSE(ClientWaits(worker_.get()));
  EXPECT_EQ(HearWorker(daemon_.get()).status().code(), StatusCode::kTimedOut);
  SayMakesContext(worker_.get(), kGpu);
  Result<WorkerSays> said = Hear();
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->word, WorkerWord::kMakesContext);
  EXPECT_EQ(said->gpu, kGpu);
  SayReady(worker_.get(), 5, kGpu);
  said = Hear();
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->word, WorkerWord::kReady);
  EXPECT_EQ(said->bytes, 5u);
  EXPECT_EQ(said->gpu, kGpu);
  ASSERT_TRUE(SendClient(daemon_.get(), 0).ok());
  EXPECT_TRUE(ClientWaits(worker_.get()));
  EXPECT_TRUE(ReceiveClient(worker_.get()).ok());
}

TEST_F(WorkerLineTest, ASessionThatHasBegun) {
  SayBegun(worker_.get());
  Result<WorkerSays> said = Hear();
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->word, WorkerWord::kBegun);
}

TEST_F(WorkerLineTest, RoomIsAskedForAndAnswered) {
  LineRoomMaker rooms(worker_.get());
  for (const bool made : {true, false}) {
    std::thread daemon([&] {
      Result<WorkerSays> said = Hear();
      ASSERT_TRUE(said.ok());
      EXPECT_EQ(said->word, WorkerWord::kNeedsRoom);
      EXPECT_TRUE(SendRoom(daemon_.get(), made).ok());
    });
    EXPECT_EQ(rooms.MakeRoom(), made);
    daemon.join();
  }
  std::thread daemon([&] {
    Result<WorkerSays> said = Hear();
    ASSERT_TRUE(said.ok());
    EXPECT_EQ(said->word, WorkerWord::kAwaitsEnds);
    EXPECT_EQ(said->gpu, kGpu);
    EXPECT_TRUE(SendRoom(daemon_.get(), true, 1234).ok());
  });
  EXPECT_EQ(rooms.AwaitEnds(kGpu), 1234u);
  daemon.join();
}

TEST_F(WorkerLineTest, HostMemoryIsAskedForInPieces) {
  constexpr uint64_t kMib = 1 << 20;
  LineRoomMaker rooms(worker_.get());
  const auto hold = [&](uint64_t bytes, std::vector<std::pair<uint64_t, bool>> questions) {
    std::thread daemon([&] {
      for (const auto& [asked, may] : questions) {
        Result<WorkerSays> said = Hear();
        ASSERT_TRUE(said.ok());
        EXPECT_EQ(said->word, WorkerWord::kHoldsHost);
        EXPECT_EQ(said->bytes, asked);
        EXPECT_TRUE(SendRoom(daemon_.get(), may).ok());
      }
    });
    const bool held = rooms.HoldHost(bytes);
    daemon.join();
    return held;
  };
  EXPECT_TRUE(hold(4096, {{64 * kMib, true}}));
  EXPECT_TRUE(hold(64 * kMib, {}));
  EXPECT_TRUE(hold(100 * kMib, {{128 * kMib, false}, {100 * kMib, true}}));
  EXPECT_FALSE(hold(200 * kMib, {{256 * kMib, false}, {200 * kMib, false}}));
  EXPECT_TRUE(hold(99 * kMib, {}));
  EXPECT_TRUE(hold(0, {{0, true}}));
}

TEST_F(WorkerLineTest, ADaemonThatIsGoneHasNoRoom) {
  LineRoomMaker rooms(worker_.get());
  daemon_.reset();
  EXPECT_FALSE(rooms.MakeRoom());
}

TEST_F(WorkerLineTest, AWorkerThatClosesItsLineIsEnding) {
  CloseLine(worker_.get());
  EXPECT_EQ(Hear().status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(SendClient(daemon_.get(), 0).ok());
}

TEST_F(WorkerLineTest, WhatMeansNothingIsRefused) {
  const auto send = [&](const WorkerSays& says, size_t bytes) {
    ASSERT_TRUE(SendMessage(worker_.get(), std::as_bytes(std::span(&says, 1)).first(bytes), {}, 0).ok());
    EXPECT_EQ(Hear().status().code(), StatusCode::kProtocolViolation) << bytes;
  };
  for (size_t bytes = 1; bytes < sizeof(WorkerSays); ++bytes) send({.word = WorkerWord::kReady}, bytes);
  send({.word = static_cast<WorkerWord>(0)}, sizeof(WorkerSays));
  send({.word = static_cast<WorkerWord>(7)}, sizeof(WorkerSays));
  const WorkerSays says;
  ASSERT_TRUE(SendMessage(worker_.get(), std::as_bytes(std::span(&says, 1)), std::array{0}, 0).ok());
  EXPECT_EQ(Hear().status().code(), StatusCode::kProtocolViolation);
}

}  // namespace
}  // namespace tessera
