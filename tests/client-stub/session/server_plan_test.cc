// Which devices of which servers a process uses, and under which numbers; what keeps them apart.
#include "client-stub/session/server_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client-stub/session/devices.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Devices with these last bytes of their UUIDs, all in PCI slot 0000:02:00.0 and following.
AskedServer ServerWith(std::string name, std::vector<uint8_t> uuids) {
  AskedServer server{std::move(name), {}};
  int bus = 2;
  for (const uint8_t uuid : uuids) {
    DeviceSnapshot::Device device;
    device.uuid[15] = device.uuid_v2[15] = uuid;
    device.pci_bus_id = "0000:0" + std::to_string(bus) + ":00.0";
    device.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX, DeviceSnapshot::Answer{0, 0});
    device.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID].value = bus++;
    server.snapshot.devices.push_back(device);
  }
  return server;
}

std::string Uuid(uint8_t last) {
  DeviceSnapshot::Device device;
  device.uuid[15] = last;
  return device.UuidText();
}

TEST(ServerPlan, DevicesCountThroughInTheOrderOfTheServers) {
  const auto sessions = PlanSessions({ServerWith("a", {1, 2}), ServerWith("b", {3})}, "").sessions;
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_THAT(sessions[0].place.ordinals, ElementsAre(0, 1));
  EXPECT_THAT(sessions[1].place.ordinals, ElementsAre(2));
  EXPECT_EQ(sessions[0].place.index, 0u);
  EXPECT_EQ(sessions[1].place.index, 1u);
  EXPECT_EQ(sessions[1].place.server, "b");
  EXPECT_EQ(sessions[1].place.devices, "");
}

TEST(ServerPlan, VisibleDevicesSelectFromTheJoinedList) {
  const std::vector<AskedServer> servers = {ServerWith("a", {1, 2}), ServerWith("b", {3, 4})};
  const auto sessions = PlanSessions(servers, "3,0,2").sessions;
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_THAT(sessions[0].place.ordinals, ElementsAre(1));
  EXPECT_EQ(sessions[0].place.devices, Uuid(1));
  EXPECT_THAT(sessions[1].place.ordinals, ElementsAre(0, 2));
  EXPECT_EQ(sessions[1].place.devices, Uuid(4) + "," + Uuid(3));
}

TEST(ServerPlan, AServerWithoutWantedDevicesHasNoSession) {
  const std::vector<AskedServer> servers = {ServerWith("a", {1, 2}), ServerWith("b", {3})};
  const auto sessions = PlanSessions(servers, " 2 ").sessions;
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].server, 1u);
  EXPECT_EQ(sessions[0].place.index, 0u);
  EXPECT_EQ(sessions[0].place.disguise.server, 1u);
  EXPECT_THAT(sessions[0].place.ordinals, ElementsAre(0));
}

TEST(ServerPlan, TheFirstEntryThatNamesNothingEndsTheList) {
  const std::vector<AskedServer> servers = {ServerWith("a", {1}), ServerWith("b", {3})};
  EXPECT_EQ(PlanSessions(servers, "1,7,0").sessions.size(), 1u);
  EXPECT_EQ(PlanSessions(servers, "0,,1").sessions.size(), 1u);
  EXPECT_THAT(PlanSessions(servers, "x").sessions, IsEmpty());
  EXPECT_THAT(PlanSessions(servers, "GPU-").sessions, IsEmpty());  // it could be either
  EXPECT_EQ(PlanSessions(servers, Uuid(3)).sessions.size(), 1u);
}

TEST(ServerPlan, ADeviceThatIsNamedTwiceMakesTheListInvalid) {
  const std::vector<AskedServer> servers = {ServerWith("a", {1}), ServerWith("b", {3})};
  for (const std::string& list : {std::string("0,0"), std::string("1,0,1"), Uuid(3) + "," + Uuid(3)}) {
    const SessionPlan plan = PlanSessions(servers, list);
    EXPECT_TRUE(plan.repeats_device) << list;
    EXPECT_THAT(plan.sessions, IsEmpty()) << list;
  }
  EXPECT_FALSE(PlanSessions(servers, "0,1").repeats_device);
  EXPECT_FALSE(PlanSessions(servers, "x").repeats_device);
}

TEST(ServerPlan, NoTwoDevicesLookTheSame) {
  const std::vector<AskedServer> servers = {ServerWith("a", {1}), ServerWith("b", {1, 5}), ServerWith("c", {1})};
  const auto disguises = DisguisesOf(servers);
  std::vector<DeviceSnapshot::Device> seen;
  for (size_t i = 0; i < servers.size(); ++i) {
    for (DeviceSnapshot::Device device : servers[i].snapshot.devices) {
      disguises[i].Apply(&device);
      seen.push_back(device);
    }
  }
  std::set<std::string> uuids, places;
  for (const auto& device : seen) {
    uuids.insert(device.UuidText());
    places.insert(device.pci_bus_id);
  }
  EXPECT_EQ(uuids.size(), 4u);
  EXPECT_EQ(places.size(), 4u);
  EXPECT_EQ(seen[0].pci_bus_id, "0000:02:00.0");
  EXPECT_EQ(seen[0].UuidText(), Uuid(1));
  EXPECT_EQ(seen[2].UuidText(), Uuid(5));  // nobody else has it
  EXPECT_EQ(seen[1].pci_bus_id, "1000:02:00.0");
  EXPECT_EQ(seen[1].attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID].value, 0x1000);
  EXPECT_EQ(seen[3].pci_bus_id, "2000:02:00.0");
}

TEST(ServerPlan, ASessionKnowsItsDevicesByTheirOrdinals) {
  DeviceSnapshot snapshot = ServerWith("b", {3, 4}).snapshot;
  snapshot.devices[0].name = "first";
  const Devices devices(snapshot, false, {2, 0});
  EXPECT_TRUE(devices.Valid(0));
  EXPECT_FALSE(devices.Valid(1));
  EXPECT_TRUE(devices.Valid(2));
  EXPECT_FALSE(devices.Valid(3));
  EXPECT_FALSE(devices.Valid(-1));
  EXPECT_EQ(devices[2].name, "first");
  EXPECT_EQ(devices.NumberOf(0), 1);
  EXPECT_EQ(devices.OrdinalOf(0), 2);
  EXPECT_EQ(devices.FindPciBusId("0000:02:00.0"), 2);
}

}  // namespace
}  // namespace tessera
