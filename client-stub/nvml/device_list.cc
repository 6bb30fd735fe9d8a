#include "client-stub/nvml/device_list.h"

#include <utility>

#include <cuda.h>

#include "client-stub/config.h"
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

Result<ServerReport> AskServer(ServerQuery query) {
  const ServerAddress address = ParseServerAddress(GetConfig().server);
  if (!address.error.empty()) return Status(StatusCode::kInvalidArgument, address.error);
  query.spec_hash = kSpecHash;
  Result<ServerReport> report = QueryServer(address.unix_path, query, MonotonicNs() + kQueryTimeoutNs);
  if (!report.ok()) return report.status();
  RETURN_IF_ERROR(CheckPeerVersion("server", report->wire_version, report->spec_hash, kSpecHash));
  return report;
}

}  // namespace

Result<DeviceList> ReadDevices() {
  const Result<ServerReport> report = AskServer({});
  if (!report.ok()) return report.status();
  const Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.value().snapshot);
  if (!snapshot.ok()) return snapshot.status();

  DeviceList list;
  list.driver_version = snapshot.value().driver_version;
  for (const DeviceSnapshot::Device& from : snapshot.value().devices) {
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
    list.devices.push_back(std::move(device));
  }
  const DeviceSnapshot& whole = snapshot.value();
  const auto peer = [&whole](size_t pair, CUdevice_P2PAttribute attribute) {
    const size_t place = pair * whole.p2p_attributes + attribute - 1;
    return attribute <= static_cast<int>(whole.p2p_attributes) && place < whole.p2p.size() && whole.p2p[place].result == 0 &&
           whole.p2p[place].value != 0;
  };
  for (size_t pair = 0; pair < list.devices.size() * list.devices.size(); ++pair) {
    list.peers.push_back({peer(pair, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED),
                          peer(pair, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)});
  }
  return list;
}

Result<DeviceState> ReadState(ServerQuery::Ask ask, size_t device, std::vector<ServerQuery::Field> fields) {
  ServerQuery query;
  query.ask = ask;
  query.device = static_cast<uint32_t>(device);
  query.fields = std::move(fields);
  Result<ServerReport> report = AskServer(std::move(query));
  if (!report.ok()) return report.status();
  DeviceState state;
  state.read_ns = MonotonicNs();
  state.driver_release = std::move(report->driver_release);
  for (const std::vector<ServerReport::Value>& values : report->readings) {
    std::map<Reading, uint64_t>& readings = state.readings.emplace_back();
    for (const ServerReport::Value& value : values) readings[value.reading] = value.value;
  }
  for (ServerReport::Text& text : report->texts) state.texts[text.reading] = std::move(text.text);
  state.fields = std::move(report->fields);
  state.uses = std::move(report->uses);
  return state;
}

}  // namespace tessera::nvml
