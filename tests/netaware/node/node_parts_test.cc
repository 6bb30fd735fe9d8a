#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <thread>

#include "netaware/node/daemon_line.h"
#include "netaware/node/host_id.h"
#include "netaware/node/node_queue.h"
#include "netaware/node/patience.h"
#include "netaware/node/server_devices.h"
#include "protocol/base/clock.h"
#include "protocol/base/printable.h"
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

// The readings of each device: its distance from the others, in NVML's levels.
std::vector<std::vector<ServerReport::Value>> LinksOf(const std::vector<std::vector<uint64_t>>& levels) {
  std::vector<std::vector<ServerReport::Value>> links;
  for (const std::vector<uint64_t>& row : levels) {
    std::vector<ServerReport::Value>& values = links.emplace_back();
    for (uint32_t other = 0; other < row.size(); ++other) values.push_back({Reading::kCommonAncestor + other, row[other]});
  }
  return links;
}

DeviceSnapshot SomeDevices(uint8_t count) {
  DeviceSnapshot snapshot;
  for (uint8_t i = 0; i < count; ++i) {
    snapshot.devices.emplace_back().uuid[15] = i;
    snapshot.devices.back().pci_bus_id = "0000:0" + std::to_string(i) + ":00.0";
  }
  return snapshot;
}

std::vector<std::optional<uint32_t>> PciGroupsOf(const DeviceSnapshot& snapshot,
                                                 const std::vector<std::vector<ServerReport::Value>>& links) {
  const std::map<std::string, ServerDevice> devices = DevicesOf(snapshot, links);
  std::vector<std::optional<uint32_t>> groups;
  for (const DeviceSnapshot::Device& device : snapshot.devices) groups.push_back(devices.at(device.UuidText()).pci_group);
  return groups;
}

// Two under one switch, two under two switches one above the other, one at a root port of its own; in order, and mixed.
TEST(ServerDevices, AreInAGroupWithThoseBehindTheSameSwitches) {
  constexpr uint64_t kOwn = 0, kOneSwitch = 10, kSwitches = 20, kBridge = 30, kNode = 40, kHost = 50;
  using Groups = std::vector<std::optional<uint32_t>>;
  EXPECT_EQ(PciGroupsOf(SomeDevices(5), LinksOf({{kOwn, kOneSwitch, kBridge, kBridge, kNode},
                                                 {kOneSwitch, kOwn, kBridge, kBridge, kNode},
                                                 {kBridge, kBridge, kOwn, kSwitches, kHost},
                                                 {kBridge, kBridge, kSwitches, kOwn, kHost},
                                                 {kNode, kNode, kHost, kHost, kOwn}})),
            (Groups{0, 0, 2, 2, 4}));
  EXPECT_EQ(PciGroupsOf(SomeDevices(5), LinksOf({{kOwn, kNode, kHost, kNode, kHost},
                                                 {kNode, kOwn, kBridge, kOneSwitch, kBridge},
                                                 {kHost, kBridge, kOwn, kBridge, kSwitches},
                                                 {kNode, kOneSwitch, kBridge, kOwn, kBridge},
                                                 {kHost, kBridge, kSwitches, kBridge, kOwn}})),
            (Groups{0, 1, 2, 1, 2}));
  // Nothing is known of a device without readings, and the others stay at their places.
  EXPECT_EQ(PciGroupsOf(SomeDevices(3), LinksOf({{kOwn, kOneSwitch}, {kOneSwitch, kOwn}})), (Groups{0, 0, std::nullopt}));
}

TEST(ServerDevices, WhateverAServerSaysIsAPlaceOrNone) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (int round = 0; round < 2'000; ++round) {
    DeviceSnapshot snapshot = SomeDevices(static_cast<uint8_t>(1 + below(8)));
    for (DeviceSnapshot::Device& device : snapshot.devices) {
      device.pci_bus_id.resize(below(13));
      for (uint32_t i = below(3) == 0 ? below(60) : 0; i > 0; --i) device.pci_bus_id += static_cast<char>(random());
    }
    std::vector<std::vector<ServerReport::Value>> links(below(10));
    for (std::vector<ServerReport::Value>& values : links) {
      for (uint32_t i = below(12); i > 0; --i) {
        const uint64_t level = below(2) == 0 ? 10 * below(6) : (uint64_t{random()} << 32 | random());
        values.push_back({Reading::kCommonAncestor + below(70), level});
      }
    }
    const std::map<std::string, ServerDevice> devices = DevicesOf(snapshot, links);
    ASSERT_EQ(devices.size(), snapshot.devices.size());
    for (uint32_t number = 0; number < snapshot.devices.size(); ++number) {
      const ServerDevice& device = devices.at(snapshot.devices[number].UuidText());
      EXPECT_LE(device.pci_group.value_or(0), number);
      EXPECT_EQ(device.pci, Printable(device.pci));
      EXPECT_LE(device.pci.size(), 32u);  // more than that the placer refuses
    }
  }
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
