#include "client-stub/nvml/device_list.h"

#include <algorithm>
#include <utility>

#include <cuda.h>

#include "client-stub/process/own_agent.h"
#include "client-stub/process/ticket_file.h"
#include "client-stub/session/server_inquiry.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/handshake.h"

namespace tessera::nvml {
namespace {

int Attribute(const DeviceSnapshot::Device& device, CUdevice_attribute attribute) {
  const auto index = static_cast<size_t>(attribute);
  if (index >= device.attributes.size() || device.attributes[index].result != 0) return 0;
  return device.attributes[index].value;
}

Device Describe(const DeviceSnapshot::Device& from) {
  Device device;
  device.name = from.name;
  device.uuid = from.UuidText();
  device.pci_domain = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
  device.pci_bus = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
  device.pci_device = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  device.compute_major = Attribute(from, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  device.compute_minor = Attribute(from, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device.multiprocessors = Attribute(from, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device.memory_bus_bits = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  device.total_bytes = from.total_bytes;
  return device;
}

// Whether two devices of one server reach each other.
PeerAccess AccessOf(const DeviceSnapshot& snapshot, size_t from, size_t to) {
  const auto peer = [&](CUdevice_P2PAttribute attribute) {
    const size_t place = (from * snapshot.devices.size() + to) * snapshot.p2p_attributes + attribute - 1;
    return attribute <= static_cast<int>(snapshot.p2p_attributes) && place < snapshot.p2p.size() &&
           snapshot.p2p[place].result == 0 && snapshot.p2p[place].value != 0;
  };
  return {peer(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED), peer(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)};
}

}  // namespace

Result<DeviceList> ReadDevices() {
  ServerList named = ParseServerList(GetConfig().server, GetConfig().server_names, GetConfig().vgpus, GetConfig().tickets);
  if (!named.error.empty()) return Status(StatusCode::kInvalidArgument, named.error);
  RETURN_IF_ERROR(ReachOtherHosts(&named));
  const Result<std::vector<AskedServer>> asked = AskServers(named);
  if (!asked.ok()) return asked.status();
  const std::vector<AskedServer>& servers = asked.value();
  const std::vector<DeviceDisguise> disguises = DisguisesOf(servers);

  DeviceList list;
  list.servers = std::move(named.servers);
  for (size_t server = 0; server < servers.size(); ++server) {
    const DeviceSnapshot& snapshot = servers[server].snapshot;
    list.driver_version = server == 0 ? snapshot.driver_version : std::min(list.driver_version, snapshot.driver_version);
    for (size_t number = 0; number < snapshot.devices.size(); ++number) {
      DeviceSnapshot::Device seen = snapshot.devices[number];
      disguises[server].Apply(&seen);
      Device device = Describe(seen);
      device.server = server;
      device.number = number;
      list.devices.push_back(std::move(device));
    }
  }
  for (const Device& from : list.devices) {
    for (const Device& to : list.devices) {
      const bool neighbours = from.server == to.server;
      list.peers.push_back(neighbours ? AccessOf(servers[from.server].snapshot, from.number, to.number) : PeerAccess{});
    }
  }
  return list;
}

Result<DeviceState> ReadState(const DeviceList& list, ServerQuery::Ask ask, size_t device,
                              std::vector<ServerQuery::Field> fields) {
  const ServerList::Server& server = list.servers[list.devices[device].server];
  const size_t first = list.FirstOfServer(device);
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.ask = ask;
  query.device = static_cast<uint32_t>(list.devices[device].number);
  query.fields = std::move(fields);
  query.vgpus = server.vgpus;
  Result<std::vector<std::byte>> ticket = ReadTicket(server.ticket_file);
  if (!ticket.ok()) return ticket.status();
  query.ticket = std::move(*ticket);
  Result<ServerReport> report = QueryServer(server.unix_path, query, MonotonicNs() + kQueryTimeoutNs);
  if (!report.ok()) return report.status();
  RETURN_IF_ERROR(CheckPeerVersion("server", report->wire_version, report->spec_hash, kSpecHash));
  DeviceState state;
  state.read_ns = MonotonicNs();
  state.driver_release = std::move(report->driver_release);
  state.readings.resize(first);
  for (const std::vector<ServerReport::Value>& values : report->readings) {
    std::map<Reading, uint64_t>& readings = state.readings.emplace_back();
    for (const ServerReport::Value& value : values) readings[value.reading] = value.value;
  }
  for (ServerReport::Text& text : report->texts) state.texts[text.reading] = std::move(text.text);
  state.fields = std::move(report->fields);
  state.uses = std::move(report->uses);
  state.sessions = std::move(report->session_list);
  for (ServerReport::Use& use : state.uses) use.device += static_cast<uint32_t>(first);
  return state;
}

}  // namespace tessera::nvml
