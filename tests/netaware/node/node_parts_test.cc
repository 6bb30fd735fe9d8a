#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <thread>

#include "netaware/node/daemon_line.h"
#include "netaware/node/host_id.h"
#include "netaware/node/node_queue.h"
#include "netaware/node/patience.h"
#include "netaware/node/server_devices.h"
#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

using ::testing::MatchesRegex;

TEST(HostId, IsTheSameForAServerAndAnotherForEachOther) {
  const std::string id = HostId("gpu7", "0123", "/run/tessera.sock");
  EXPECT_THAT(id, MatchesRegex("gpu7-[0-9a-f]{8}"));
  EXPECT_EQ(id, HostId("gpu7", "0123", "/run/tessera.sock"));
  EXPECT_NE(id, HostId("gpu7", "0124", "/run/tessera.sock"));
  EXPECT_NE(id, HostId("gpu7", "0123", "/run/other.sock"));
  for (const std::string& host : {std::string(), std::string(300, 'x'), std::string("a\nb\xff")}) {
    EXPECT_TRUE(IsHostId(HostId(host, "", "/s"))) << host;
  }
  EXPECT_TRUE(IsHostId(HostIdHere("server.sock")));
  EXPECT_FALSE(IsHostId(""));
  EXPECT_FALSE(IsHostId(std::string(64, 'x')));
  EXPECT_FALSE(IsHostId("a\nb"));
}

TEST(ServerDevices, SayWhereTheyAreAsFarAsTheServerDoes) {
  constexpr size_t kHostNuma = 134;
  DeviceSnapshot snapshot;
  for (uint8_t i = 0; i < 4; ++i) {
    DeviceSnapshot::Device& device = snapshot.devices.emplace_back();
    device.name = "GPU\x1b";
    device.uuid[15] = i;
    device.pci_bus_id = "0000:0" + std::to_string(i) + ":00.0";
    device.attributes.resize(kHostNuma + 1);
    device.attributes[kHostNuma].value = i / 2;
  }
  snapshot.devices[3].attributes[kHostNuma].value = -1;
  // 0 and 2 share a switch, 1 is behind a host bridge of its own, 3 has no NVML.
  const auto levels = [](uint64_t first, uint64_t second, uint64_t third) {
    return std::vector<ServerReport::Value>{
        {Reading::kCommonAncestor, first}, {Reading::kCommonAncestor + 1, second}, {Reading::kCommonAncestor + 2, third}};
  };
  std::map<std::string, ServerDevice> devices =
      DevicesOf(snapshot, {levels(0, 30, 20), levels(30, 0, 40), levels(20, 40, 0), {}});
  const auto device = [&](size_t number) { return devices.at(snapshot.devices[number].UuidText()); };
  EXPECT_EQ(device(0).model, "GPU?");
  EXPECT_EQ(device(1).pci, "0000:01:00.0");
  EXPECT_EQ(device(1).numa, 0u);
  EXPECT_EQ(device(2).numa, 1u);
  EXPECT_FALSE(device(3).numa.has_value());
  EXPECT_EQ(device(0).pci_group, 0u);
  EXPECT_EQ(device(1).pci_group, 1u);
  EXPECT_EQ(device(2).pci_group, 0u);
  EXPECT_FALSE(device(3).pci_group.has_value());
}

TEST(Patience, WaitsLongerEachTimeAndSaysEachReasonOnce) {
  Patience patience;
  std::vector<int64_t> waits;
  for (int i = 0; i < 8; ++i) waits.push_back(patience.NextMs());
  EXPECT_EQ(waits, (std::vector<int64_t>{100, 200, 400, 800, 1'600, 3'200, 5'000, 5'000}));
  EXPECT_TRUE(patience.IsNews("nobody listens"));
  EXPECT_FALSE(patience.IsNews("nobody listens"));
  EXPECT_TRUE(patience.IsNews("it refuses"));
  patience.Reset();
  EXPECT_EQ(patience.NextMs(), 100);
  EXPECT_TRUE(patience.IsNews("it refuses"));
}

TEST(NodeQueue, DoesWhatThreadsTellItInOrder) {
  const std::unique_ptr<NodeQueue> queue = std::move(NodeQueue::Make()).value();
  std::vector<int> done;
  std::thread other([&] {
    for (int i = 0; i < 1'000; ++i) queue->Push([&done, i] { done.push_back(i); });
  });
  while (done.size() < 1'000) {
    pollfd ready{queue->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 10'000), 1);
    queue->Run();
  }
  other.join();
  EXPECT_TRUE(std::ranges::is_sorted(done));
  queue->Run();  // its event may come behind the work
  pollfd ready{queue->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 0);
}

class DaemonLineTest : public ::testing::Test {
 protected:
  DaemonLineTest() : pair_(std::move(MakeSocketPair()).value()), line_(std::move(pair_.second)) {}

  void Ask(uint64_t id) {
    Encoder out;
    TicketQuestion{id, "uid:7", {std::byte{1}}}.Encode(out);
    ASSERT_TRUE(SendMessage(pair_.first.get(), out.bytes(), {}, 0).ok());
  }
  bool Tend() {
    return line_.Tend([&](const TicketQuestion& question) { asked_.push_back(question.id); });
  }
  Result<TicketAnswer> Answer() {
    Result<SocketMessage> message = ReceiveMessage(pair_.first.get(), kNodeMessageBytesMax, 0);
    if (!message.ok()) return message.status();
    return TicketAnswer::Decode(message->bytes);
  }

  std::pair<UniqueFd, UniqueFd> pair_;
  DaemonLine line_;
  std::vector<uint64_t> asked_;
};

TEST_F(DaemonLineTest, QuestionsComeAndAnswersGo) {
  Ask(1);
  Ask(2);
  EXPECT_TRUE(Tend());
  EXPECT_EQ(asked_, (std::vector<uint64_t>{1, 2}));
  line_.Send({2, StatusCode::kOk, "", "grant-1"});
  EXPECT_EQ(Answer()->vgpus, "grant-1");
  pair_.first.reset();
  EXPECT_FALSE(Tend());
}

TEST_F(DaemonLineTest, WhatIsNoQuestionIsPassedOver) {
  const std::array<std::byte, 3> none{};
  ASSERT_TRUE(SendMessage(pair_.first.get(), none, {}, 0).ok());
  Ask(3);
  EXPECT_TRUE(Tend());
  EXPECT_EQ(asked_, (std::vector<uint64_t>{3}));
  const std::vector<std::byte> large(kNodeMessageBytesMax + 1);
  ASSERT_TRUE(SendMessage(pair_.first.get(), large, {}, 0).ok());
  EXPECT_FALSE(Tend());
}

TEST_F(DaemonLineTest, ADaemonThatDoesNotReadForAWhileMissesNothing) {
  constexpr uint64_t kAnswers = 2'000;
  for (uint64_t id = 0; id < kAnswers; ++id) line_.Send({id, StatusCode::kPermissionDenied, std::string(900, 'x'), ""});
  EXPECT_NE(line_.events() & POLLOUT, 0);
  for (uint64_t id = 0; id < kAnswers; ++id) {
    Result<TicketAnswer> answer = Answer();
    if (!answer.ok()) {
      ASSERT_TRUE(Tend());
      answer = Answer();
    }
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    ASSERT_EQ(answer->id, id);
  }
  EXPECT_EQ(line_.events(), POLLIN);
}

}  // namespace
}  // namespace tessera
